"""What the log for replicas takes: bytes on the carrier and CPU time a page.

    python benchmarks/durability/log_bytes.py [--pages 1000] [--pairs 7]

Two made webs, of manuals with 37 kB a page and of small pages with 20 links, are crawled in this process from a table,
with RocksDB and real files, but without sockets. So the CPU time of a page is that of parsing, admission and storing
only, and the share of the log is greater than in a crawl.

    bytes    of all chunks, sealed and compressed, over pages, if so many pages are gathered into one chunk.
             ``besides``: the same without the bytes of the records themselves.
    CPU      user and system time of crawls with a log, whose chunks are made every ``GATHERED`` pages, over that of
             crawls without one, in turns: the median of the ratios of the pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import make_files, make_small_files
from crawler.base.settings.parts import CrawlSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.steps.replica_codec import ReplicaCodec
from crawler.job.steps.step_codec import Chunk, Step
from crawler.web.fetch import SimulatedWeb
from crawler.web.fetch.outcome import Response
from crawler.web.fetch.simulated import page
from tests.driving import Driven

CODEC = ReplicaCodec(b"the secret of a crawl")
SETTINGS = Settings(
    crawl=CrawlSettings(concurrency=16),
    politeness=PolitenessSettings(delay=0.0, per_host=8),
    robots=RobotsSettings(ignore=True),
)
GATHERED = 25  # pages in a chunk: 0.1 s of a partition with 250 pages a second
GATHERINGS = (10, GATHERED, 100)
WEBS: dict[str, Callable[..., list[tuple[Path, str]]]] = {"manuals": make_files, "small pages": make_small_files}


@dataclass
class Crawled:
    """A crawl, and its log if it had one."""

    pages: int
    seconds: float  # of CPU
    steps: list[Step] = field(default_factory=list)


async def seeds(hrefs: list[str]) -> AsyncIterator[list[str]]:
    yield hrefs


def table(roots: list[tuple[Path, str]]) -> dict[str, Callable[..., Response]]:
    """The answers of a web that was written to files."""
    answers: dict[str, Callable[..., Response]] = {}
    for number, (root, _) in enumerate(roots):
        for path in root.rglob("*.html"):
            name = path.relative_to(root).as_posix()
            answers[f"http://h{number}.test/{'' if name == 'index.html' else name}"] = lambda _, path=path: page(
                path.read_text("ascii")
            )
    return answers


async def crawl(answers: dict[str, Callable[..., Response]], line: int, *, keeps: bool = False) -> Crawled:
    """One crawl from its first pages to its end. ``keeps``: the steps are returned, and not made into chunks."""
    crawled = Crawled(0, 0.0)
    with tempfile.TemporaryDirectory() as top:
        job = Job(Path(top) / "job", SETTINGS, time.time(), Platform(line=line))

        async def before(_: str) -> None:
            crawled.pages += 1
            if line and crawled.pages % GATHERED == 0:
                gather()

        def gather() -> None:
            nonlocal sent
            while (chunk := job.log.after(sent, 3)) is not None:
                sent = chunk.reaches
                crawled.steps += chunk.steps if keeps else ()
                if not keeps:
                    CODEC.encode(chunk)
            job.log.forget(sent)

        try:
            if line:
                job.log.keep()
            sent = job.log.mark
            names = sorted({href.split("/")[2] for href in answers})
            driven = Driven(
                job, SimulatedWeb(answers, before), SETTINGS, time.time, seeds([f"http://{n}/" for n in names])
            )
            began = time.process_time()
            assert await driven.to_the_end() is Stop.FINISHED
            if line:
                gather()
            crawled.seconds = time.process_time() - began
        finally:
            job.close()
    return crawled


def size(steps: Sequence[Step], gathered: int) -> int:
    """The bytes on the carrier."""
    chunks = [steps[at : at + gathered] for at in range(0, len(steps), gathered)]
    return sum(len(CODEC.encode(Chunk(3, 9, 9, 1, chunk))) for chunk in chunks)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=1_000, help="of each web (1000)")
    parser.add_argument("--pairs", type=int, default=7, help="crawls with a log and without one (7)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    for name, make in WEBS.items():
        with tempfile.TemporaryDirectory() as home:
            answers = table(make(Path(home), pages=chosen.pages))
            kept = asyncio.run(crawl(answers, 9, keeps=True))
            bare = [step._replace(written=(), bodies=()) for step in kept.steps]
            plain = sum(len(step.batch) for step in kept.steps)
            batches = plain / kept.pages
            print(f"\n{name}: {kept.pages:,} pages, {len(kept.steps):,} steps, {batches:,.0f} bytes of batches a page")
            for gathered in GATHERINGS:
                steps = gathered * len(kept.steps) // kept.pages
                whole, besides = size(kept.steps, steps), size(bare, steps)
                print(
                    f"  {gathered:>3} pages in a chunk   {whole / kept.pages:>6,.0f} bytes a page,"
                    f" {besides / kept.pages:>6,.0f} besides the record"
                )
            ratios, differences = [], []
            for _ in range(chosen.pairs):
                without, logged = asyncio.run(crawl(answers, 0)), asyncio.run(crawl(answers, 9))
                ratios.append(logged.seconds / without.seconds)
                differences.append((logged.seconds - without.seconds) / kept.pages * 1e6)
            print(
                f"  CPU with a log      {statistics.median(ratios):.3f} of that without one"
                f" ({min(ratios):.3f} to {max(ratios):.3f}), {statistics.median(differences):.0f} us a page"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
