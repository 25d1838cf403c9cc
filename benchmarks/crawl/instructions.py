"""Instructions of a crawl over those of the floor: to start, and a page.

    python benchmarks/crawl/instructions.py [--check | --record]

callgrind counts the instructions in user space of this crawler and of the floor on two made webs, one of a few pages
and one of some hundreds. Instructions hardly depend on what else the machine does: two runs differ by less than 1%,
so a change of a few per cent is seen on a busy machine too. They say nothing about the kernel, the disk and caches.

What is compared between versions are ratios to the floor: a new aiohttp or another processor changes both alike.
``--record`` adds the figures to benchmarks/history/instructions.jsonl. ``--check`` compares with the last record of
the same minor version of Python and fails if a ratio has grown by more than 5%. Both refuse where the compiled module
is missing: the program would be another one.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.crawl.crawls import ROOT, Crawler, floor, ours
from benchmarks.crawl.web import served
from benchmarks.kit.machine import describe_commit, describe_machine, why_not_native
from benchmarks.kit.made_pages import MADE_HOSTS, make_files

HISTORY = ROOT / "benchmarks" / "history" / "instructions.jsonl"
CLOCK = Path(__file__).resolve().with_name("count_clock.py")
TOLERANCE = 0.05
FEW, MANY = MADE_HOSTS, 400  # pages
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_PACKAGES = ("aiohttp", "ada-url", "selectolax", "msgspec", "yarl", "rocksdict")

Figures = Mapping[str, float]


class NotCountedError(Exception):
    """A crawl could not be measured."""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="fail if it costs more than 5%% more than recorded")
    what.add_argument("--record", action="store_true", help="add the figures to the history")
    chosen = parser.parse_args(words)
    reason = why_not_native()
    if reason is not None and (chosen.check or chosen.record):
        print(f"error: only the program with its compiled module is compared: {reason}", file=sys.stderr)
        return 1
    before = recorded(HISTORY) if chosen.check else None
    if chosen.check and before is None:
        print(f"nothing is recorded for Python {_python()}: run it once with --record", file=sys.stderr)
        return 1
    try:
        figures = measured()
    except (NotCountedError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, value in figures.items():
        print(f"{name:<40}{value:>16,.3f}" + ("" if before is None else f"{before.get(name, 0.0):>16,.3f}"))
    if chosen.record:
        _record(figures)
    faults = [] if before is None else grown(before, figures)
    for fault in faults:
        print(f"{fault}. Mend it, or record the new figures (--record) and say why.", file=sys.stderr)
    return 1 if faults else 0


def grown(before: Figures, now: Figures) -> list[str]:
    """Sentences about the ratios that have grown by more than the tolerance."""
    return [
        f"{name}: {now[name]:.3f}, {now[name] / value - 1:.1%} more than the {value:.3f} that are recorded"
        for name, value in before.items()
        if name.endswith("of the floor") and now[name] > value * (1 + TOLERANCE)
    ]


def recorded(history: Path) -> Figures | None:
    """The last figures of this minor version of Python, or None."""
    lines = map(json.loads, history.read_text("utf-8").splitlines()) if history.exists() else iter(())
    last = None
    for line in lines:
        if line["python"] == _python():
            last = line["figures"]
    return last


def measured() -> dict[str, float]:
    """Instructions in millions, and their ratios. Raises NotCountedError."""
    # A run that finds no compiled modules would count their compilation as the cost of its pages.
    for folder in (ROOT / "crawler", Path(__file__).parent):
        compileall.compile_dir(folder, quiet=2)
    crawlers = (floor(), ours())
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as threads:
        home = Path(scratch)
        counts = {
            (crawler.name, pages): threads.submit(_count, crawler, pages, home / f"{crawler.name}-{pages}")
            for pages in (MANY, FEW)
            for crawler in crawlers
        }
        cost = {key: count.result() / 1e6 for key, count in counts.items()}
    figures = {}
    for crawler in crawlers:
        page = (cost[crawler.name, MANY] - cost[crawler.name, FEW]) / (MANY - FEW)
        figures[f"{crawler.name}: start"] = cost[crawler.name, FEW] - FEW * page
        figures[f"{crawler.name}: a page"] = page
    for part in ("start", "a page"):
        figures[f"{part}, of the floor"] = figures[f"{ours().name}: {part}"] / figures[f"{floor().name}: {part}"]
    return {name: round(value, 3) for name, value in figures.items()}


def _count(crawler: Crawler, pages: int, home: Path) -> int:
    """The instructions of a crawl of a web of its own. Raises NotCountedError."""
    total = _TOTAL.search(run_counted(crawler, pages, home).read_text("utf-8"))
    if total is None:
        raise NotCountedError("callgrind printed no total")
    return int(total[1])


def run_counted(crawler: Crawler, pages: int, home: Path, options: Sequence[str] = ()) -> Path:
    """Crawl a web of its own in ``home`` under callgrind, with these options of it. Returns the file that it writes.
    Raises NotCountedError."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NotCountedError("valgrind is missing: apt-get install valgrind")
    home.mkdir()
    with served(make_files(home / "files", pages=pages), home / "nginx") as web:
        seeds, counted, log = home / "seeds.txt", home / "counted", home / "log"
        seeds.write_text("".join(f"{url}\n" for url in web.seeds))
        interpreter, _, *words = crawler.command(seeds, home)  # -m MODULE ARGUMENT...
        tool = (valgrind, "--tool=callgrind", f"--callgrind-out-file={counted}", *options)
        # One order of sets in all runs; modules are compiled already.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with log.open("wb") as sink:
            began = time.monotonic()
            command = [*tool, interpreter, str(CLOCK), *words]
            process = subprocess.run(command, cwd=ROOT, env=environment, stdout=sink, stderr=sink, check=False)
        found = len(crawler.pages(home)) if process.returncode == 0 else 0
        if found != pages:
            told = log.read_text("utf-8", "replace")[-2_000:]
            raise NotCountedError(f"{crawler.name} found {found} of {pages} pages:\n{told}")
        print(f"{crawler.name}: {pages} pages counted in {time.monotonic() - began:.0f} s", flush=True)
    return counted


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _record(figures: Figures) -> None:
    line = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": describe_commit(ROOT),
        "machine": describe_machine(_PACKAGES),
        "python": _python(),
        "figures": figures,
    }
    with HISTORY.open("a", encoding="utf-8") as history:
        history.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
