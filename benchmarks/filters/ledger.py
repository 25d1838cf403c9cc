"""The cost of the ledger: the same links admitted by a job with it and by one without.

Pages of 100 links, of which some are new, some were met on one of the last pages and the others go to any page so far:
the first are admitted, the second are settled in memory, the third must be looked up. The jobs take turns page by page;
both decide between pages what they have to, as the crawl does beside its work. CPU time of this thread, bytes of the
job's directory when it is closed.

    python -m benchmarks.filters.ledger [--pages 20000] [--fpp 0.001] [--out benchmarks/filters/ledger.txt]
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from msgspec.structs import replace

from benchmarks.filters.add_many import machine, url
from crawler.base.settings.parts import SeenSettings, Settings
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.url.urls.canonicaliser import Canonical

LINKS = 100
NEW, RECENT = 0.1, 0.7  # shares of the links
PAGES_RECENT = 50
BATCH = 4_096  # doubted URLs that are looked up together
SLICE = 512


class Side:
    """One of the two jobs, and what it has cost."""

    def __init__(self, directory: Path, seen: SeenSettings) -> None:
        self.directory = directory
        self.settings = Settings(seen=seen)
        self.job = Job(directory, self.settings, 0.0)
        self.admitting = self.deciding = 0
        self.longest = 0

    def page(self, found: list[Canonical], *, last: bool) -> None:
        began = time.thread_time_ns()
        self.job.admit(Found(found, 1, "https://www.example.org/"))
        self.admitting += time.thread_time_ns() - began
        if self.job.doubted >= BATCH or last:
            while self.job.doubted:
                began = time.thread_time_ns()
                self.job.decide(SLICE, time.time())
                took = time.thread_time_ns() - began
                self.deciding += took
                self.longest = max(self.longest, took)

    def close(self) -> int:
        """Returns the bytes of the directory."""
        self.job.close()
        Job(self.directory, self.settings, 0.0).close()  # the log becomes tables
        return sum(path.stat().st_size for path in self.directory.rglob("*") if path.is_file())


def main() -> None:
    asked = argparse.ArgumentParser(description="what the ledger costs")
    asked.add_argument("--pages", type=int, default=20_000)
    asked.add_argument("--fpp", type=float, default=0.001)
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    chance = random.Random(7)
    directory = Path(tempfile.mkdtemp(prefix="ledger-"))
    seen = SeenSettings(fpp=options.fpp, capacity=2**16, compact_slices=0)
    sides = {}
    for name, ledger in (("without", False), ("with ledger", True)):
        sides[name] = Side(directory / name.split()[0], replace(seen, ledger=ledger))
    numbers = 1
    last_pages: list[int] = [0]
    repeats = 0
    for page in range(options.pages):
        links = []
        for _ in range(LINKS):
            draw = chance.random()
            if draw < NEW:
                links.append(numbers)
                numbers += 1
            elif draw < NEW + RECENT:
                links.append(chance.choice(last_pages))
            else:
                links.append(chance.randrange(numbers))
        repeats += LINKS - len(set(links))
        last_pages = (last_pages + [number for number in links if number])[-PAGES_RECENT * LINKS :]
        found = [Canonical(url(number), url(number)) for number in set(links)]
        for side in sides.values():
            side.page(found, last=page == options.pages - 1)
    admitted = sides["with ledger"].job.counters.urls_admitted
    links = options.pages * LINKS - repeats
    ledger = sides["with ledger"].job.ledger
    assert ledger is not None
    lines = [
        f"{admitted:,} URLs admitted from {links:,} links on {options.pages:,} pages, fpp {options.fpp}",
        machine(),
        "",
        f"{'CPU of the thread':18}{'admitting, us a link':>22}{'deciding, us a link':>22}{'longest slice, ms':>20}"
        f"{'bytes a URL on disk':>22}",
    ]
    counts = ledger.counts
    missed = admitted - sides["without"].job.counters.urls_admitted
    for name, side in sides.items():
        cost = side.admitting / links / 1000, side.deciding / links / 1000, side.longest / 1e6
        size = side.close() / admitted
        lines.append(f"{name:18}{cost[0]:22.2f}{cost[1]:22.2f}{cost[2]:20.1f}{size:22.1f}")
    lines += [
        "",
        f"doubted: {counts.confirmed:,} seen indeed, {counts.false_positives:,} false positives, admitted then",
    ]
    lines += [f"never admitted without the ledger: {missed:,}"]
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
