"""A job of 10 million URLs and 5 GB of output: what a restart, stats, verify and other commands cost.

    python benchmarks/durability/big.py [--urls 10000000] [--finished 2000000] [--bytes 2500] [--dir DIR] [--out FILE]

The job is made by its own writers (admission, queue, journal, output, generations), without a network: URLs are
admitted, and some are taken and finished, in large steps. No generation covers the last steps, so the first restart
has a journal to replay, as after a kill. Then each command runs in its own process; a restart ends at once because its
limit of pages is reached.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import CrawlSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.cli.exit_codes import Exit
from crawler.frontier.entry import Entry
from crawler.frontier.lease import Done
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.records import Outcome, PageRecord, encode_page
from crawler.tools.bench.process_cost import module_environment, run
from crawler.url.urls.canonicaliser import Canonical

PACKAGES = ("numpy", "bitarray", "mmh3", "rocksdict")
HOSTS = 1_000
STEP = 2_000  # URLs
COVERED = 1_000_000  # URLs from one generation to the next
SETTINGS = Settings(
    crawl=CrawlSettings(concurrency=STEP, scope="any"),
    politeness=PolitenessSettings(delay=0.0, per_host=STEP),
    robots=RobotsSettings(ignore=True),
)
_MIB = 2**20


def href(number: int, length: int = 0) -> str:
    """Of a host on which nobody listens, should anything ever be asked for it."""
    host = number % HOSTS
    text = f"http://127.77.{host >> 8}.{host & 255}:9/archive/{number}/"
    return text + "x" * (length - len(text))


def record_of(entry: Entry, now: float) -> PageRecord:
    return PageRecord(entry, Outcome.FETCHED, now, 200, None, "text/html", 20_000, 12)


def length_of_url(record: int) -> int:
    """With which a record has that many bytes."""
    return record - len(encode_page(record_of(Entry("", 0), 0.0)))


def admit(job: Job, numbers: range, length: int) -> None:
    urls = [href(number, length) for number in numbers]
    job.admit(Found([Canonical(url, url) for url in urls], 0, seed=numbers.start == 0))


def finish_all(job: Job, now: float) -> None:
    """Everything that is pending, in one transaction."""
    leases = []
    while (lease := job.frontier.take(now)) is not None:
        leases.append(lease)
    with job.writer as transaction:
        for lease in leases:
            assert lease.entry is not None
            job._finish_record(record_of(lease.entry, now), transaction)
            job.frontier.finish(lease, Done(), now, transaction.batch)


async def build(directory: Path, urls: int, finished: int, record: int) -> None:
    began = time.monotonic()
    job = Job(directory, SETTINGS, time.time())
    try:
        for start in range(0, urls, STEP):
            end = min(start + STEP, urls)
            now = time.time()
            admit(job, range(start, end), length_of_url(record) if start < finished else 0)
            if start < finished:
                finish_all(job, now)
            if end % COVERED == 0 and end < urls:
                await job.checkpoint(now)
                print(f"{end:,} URLs after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            elif start // STEP % 25 == 0:
                await job.sync()
        await job.sync()
    finally:
        job.close()


def measure(job: Path, home: Path, finished: int) -> list[str]:
    """A line for each command. Raises SystemExit if one fails."""
    seeds = home / "seeds.txt"
    seeds.write_text(href(finished) + "\n")
    resume = (str(seeds), "--job", str(job), "--max-pages", "1", "--ignore-robots", "--allow-private", "--quiet")
    commands: dict[str, tuple[str, ...]] = {
        "restart, a journal to replay": resume,
        "restart, nothing to replay": resume,
        "stats": ("stats", str(job), "--json"),
        "hosts, the 50 largest": ("hosts", str(job)),
        "tail, the last 10": ("tail", str(job)),
        "explain a pending URL": ("explain", str(job), href(finished)),
        "verify": ("verify", str(job)),
    }
    lines = []
    for what, words in commands.items():
        cost = run([sys.executable, "-m", "crawler", *words], home / "log", home, env=module_environment())
        lines.append(f"{what:<34}{cost.wall:>10.1f}{cost.cpu:>10.1f}{cost.rss:>10.0f}{cost.code:>8}")
        print(lines[-1], file=sys.stderr, flush=True)
        if cost.code != (Exit.LIMIT if words is resume else Exit.OK):
            raise SystemExit((home / "log").read_text("utf-8", "replace")[-2000:])
    return lines


def _build(*words: Any) -> None:
    asyncio.run(build(*words))


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--urls", type=int, default=10_000_000, help="in all (10,000,000)")
    parser.add_argument("--finished", type=int, default=2_000_000, help="of them, the others wait (2,000,000)")
    parser.add_argument("--bytes", type=int, default=2_500, help="of a record (2500)")
    parser.add_argument("--dir", type=Path, help="where the job is made")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    lines = list(describe_machine(PACKAGES))
    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
        home = Path(name)
        # By a process of its own: a child's largest size counts the process that it was forked from.
        words = (home / "job", chosen.urls, chosen.finished, chosen.bytes)
        builder = multiprocessing.get_context("fork").Process(target=_build, args=words)
        began = time.monotonic()
        builder.start()
        builder.join()
        if builder.exitcode:
            raise SystemExit(1)
        output = (home / "job" / "pages.jsonl").stat().st_size
        store = sum(path.stat().st_size for path in (home / "job" / "store").iterdir())
        lines.append(f"\n{chosen.urls:,} URLs of {HOSTS:,} hosts, {chosen.finished:,} of them finished")
        lines.append(f"made in {time.monotonic() - began:.0f} s")
        lines.append(f"pages.jsonl {output / 10**9:.2f} GB, store {store / _MIB:,.0f} MiB\n")
        lines.append(f"{'':<34}{'seconds':>10}{'CPU s':>10}{'RSS MiB':>10}{'exit':>8}")
        lines += measure(home / "job", home, chosen.finished)
    text = "\n".join(lines)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
