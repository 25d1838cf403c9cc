"""What the copy that a replica begins with takes: CPU time, bytes on the carrier, and what a crawl beside it pays.

    python benchmarks/durability/copy_cost.py [--pages 2000] [--urls 20000] [--pairs 5]

A made web of manuals is crawled in this process from a table, with RocksDB and real files but without sockets, with the
outputs warc, links and bodies; then more URLs are admitted, so that the store has a frontier. The directory is copied:

    source     CPU time of reading, compressing and sealing all pieces, over the bytes of the files
    target     the same of opening the messages and of writing and syncing the files
    carrier    bytes of the messages over the bytes of the files

Then the job goes on with a second web, in turns with a copy beside it and without. The copy has credit for 8 pieces
each 0.1 s, as between workers, and begins again when it ends. ``loop`` is the CPU time of the thread of the crawl, and
``process`` that of all threads, those of the copy among them: with a copy over without one, the median of the pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from msgspec.structs import replace

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import make_files
from crawler.base.disk import RealDisk
from crawler.base.settings.parts import CrawlSettings, OutputSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.job.copy_target import CopyTarget
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.job_copy import JobCopy
from crawler.job.platform import Platform
from crawler.job.steps.copy_pieces import PIECE, HandOver
from crawler.job.steps.replica_codec import ReplicaCodec
from crawler.job.steps.step_codec import Chunk
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.web.fetch import SimulatedWeb
from crawler.web.fetch.outcome import RawExchange, Response
from crawler.web.fetch.simulated import page
from tests.driving import Driven

CODEC = ReplicaCodec(b"the secret of a crawl")
SETTINGS = Settings(
    crawl=CrawlSettings(concurrency=16),
    politeness=PolitenessSettings(delay=0.0, per_host=8),
    robots=RobotsSettings(ignore=True),
    output=OutputSettings(("warc", "links", "bodies")),
)
CREDIT = 8  # pieces that are sent ...
ROUND = 0.1  # ... in so many seconds
ADMITTED = 10_000  # URLs in a transaction

Answers = dict[str, Callable[..., Response]]


async def seeds(hrefs: list[str]) -> AsyncIterator[list[str]]:
    yield hrefs


def table(roots: list[tuple[Path, str]], prefix: str) -> Answers:
    """The answers of a web that was written to files."""
    answers: Answers = {}
    for number, (root, _) in enumerate(roots):
        for path in root.rglob("*.html"):
            name = path.relative_to(root).as_posix()
            url = f"http://{prefix}{number}.test/{'' if name == 'index.html' else name}"
            answers[url] = lambda _, path=path: answer(path)
    return answers


def answer(path: Path) -> Response:
    text = path.read_text("ascii")
    return replace(page(text), raw=raw(text))


def raw(text: str) -> RawExchange:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    return RawExchange(b"GET / HTTP/1.1\r\n\r\n", head, text.encode())


async def crawl(job: Job, answers: Answers) -> None:
    names = sorted({href.split("/")[2] for href in answers})
    web = SimulatedWeb(answers)
    driven = Driven(job, web, SETTINGS, time.time, seeds([f"http://{name}/" for name in names]))
    assert await driven.to_the_end() is Stop.FINISHED


def opened(directory: Path, line: int) -> Job:
    return Job(directory, SETTINGS, time.time(), Platform(line=line))


async def prepare(directory: Path, answers: Answers, urls: int) -> None:
    job = opened(directory, 1)
    try:
        await crawl(job, answers)
        canonicaliser, base = Canonicaliser(), "http://later.test/"
        for first in range(0, urls, ADMITTED):
            found, _ = canonicaliser.outlinks(
                base, (f"{number % 97}/{number}" for number in range(first, first + ADMITTED))
            )
            job.admit(Found(found, 1))
        await job.checkpoint(time.time())
        await job.sync()
    finally:
        job.close()


@dataclass
class Copied:
    """One copy: bytes of the files, and of the messages, pieces, and seconds of CPU."""

    files: int
    messages: int
    pieces: int
    seconds: float


async def copy_once(directory: Path, top: Path, *, writes: bool) -> Copied:
    job = opened(directory, 2)
    target, messages, pieces = CopyTarget(top / "replicas", "00", RealDisk()), 0, 0
    try:
        began = time.process_time()
        async with JobCopy(job, 0, CODEC) as copy:
            while (message := await copy.next()) is not None:
                messages, pieces = messages + len(message), pieces + 1
                if writes:
                    await asyncio.to_thread(take, target, message)
        seconds = time.process_time() - began
    finally:
        job.close()
    place = top / "replicas" / "00"
    files = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return Copied(files, messages, pieces - 2, seconds)


def take(target: CopyTarget, message: bytes) -> None:
    decoded = CODEC.decode(message)
    assert not isinstance(decoded, Chunk | HandOver)
    target.take(decoded)


async def beside(job: Job) -> None:
    """Copy the job again and again, with credit."""
    while True:
        async with JobCopy(job, 0, CODEC) as copy:
            sent = 0
            while await copy.next() is not None:
                sent += 1
                if sent % CREDIT == 0:
                    await asyncio.sleep(ROUND)


@dataclass
class Crawled:
    """Seconds of CPU of the thread of the crawl, and of all threads."""

    loop: float
    process: float


async def crawl_on(source: Path, answers: Answers, *, copies: bool) -> Crawled:
    with tempfile.TemporaryDirectory() as top:
        job = opened(Path(shutil.copytree(source, Path(top) / "job")), 3)
        try:
            copying = asyncio.create_task(beside(job)) if copies else None
            loop, process = time.thread_time(), time.process_time()
            await crawl(job, answers)
            crawled = Crawled(time.thread_time() - loop, time.process_time() - process)
            if copying is not None:
                assert not copying.done()
                copying.cancel()
                await asyncio.wait([copying])
        finally:
            job.close()
    return crawled


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=2_000, help="of each web (2000)")
    parser.add_argument(
        "--urls", type=int, default=20_000, help="that are admitted besides, of which no page exists (20000)"
    )
    parser.add_argument("--pairs", type=int, default=5, help="copies, and crawls with a copy and without (5)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    with tempfile.TemporaryDirectory() as home:
        top = Path(home)
        first, second = (table(make_files(top / name, pages=chosen.pages), name) for name in ("a", "b"))
        job = top / "job"
        asyncio.run(prepare(job, first, chosen.urls))
        wholes = [asyncio.run(copy_once(job, top, writes=True)) for _ in range(chosen.pairs)]
        sources = [asyncio.run(copy_once(job, top, writes=False)) for _ in range(chosen.pairs)]
        files, messages, pieces = wholes[-1].files, wholes[-1].messages, wholes[-1].pieces
        source = statistics.median(each.seconds for each in sources)
        whole = statistics.median(each.seconds for each in wholes)
        print(f"\njob       {files:>12,} bytes of files, {pieces:,} pieces of {PIECE:,} bytes")
        print(f"carrier   {messages / files:>12.2f} of these bytes")
        print(
            f"source    {source / files * 1e9:>12.2f} s of CPU a GB, {files / source / 1e6:,.0f} MB in a second of it"
        )
        target = whole - source
        print(
            f"target    {target / files * 1e9:>12.2f} s of CPU a GB, {files / target / 1e6:,.0f} MB in a second of it"
        )
        pairs = []
        for _ in range(chosen.pairs):
            without = asyncio.run(crawl_on(job, second, copies=False))
            pairs.append((asyncio.run(crawl_on(job, second, copies=True)), without))
        print(f"loop      {spread([copied.loop / without.loop for copied, without in pairs])} with a copy beside it")
        print(f"process   {spread([copied.process / without.process for copied, without in pairs])}")


if __name__ == "__main__":
    main(sys.argv[1:])
