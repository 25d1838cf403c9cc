"""What a replica costs that takes over long after it was copied, by the keys that were admitted since.

    python benchmarks/durability/following.py [--keys 0,1,2,4,8] [--before 0] [--archived 2000] [--interval 12000]

A job is copied, and its copy follows made steps: each finishes a page with a record and an archived answer, and admits
ten keys. It syncs every 1,000 pages, and writes a generation every ``--interval`` pages: as many as a partition
finishes in a minute with 200 pages a second. After so many million keys a copy of its directory is opened as the job.

    promoted   CPU time of the opening, and bytes that it wrote
    reopened   the same of the follower itself, when its worker begins again
    following  CPU time of steps and syncs since the last line, and of generations, for each key; and the bytes that
               generations wrote

``--before``: million keys in the seen-set when it was copied.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import OutputSettings, Settings
from crawler.frontier.entry import Entry
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import (
    Done,
    End,
    Outcome,
    PageRecord,
    Position,
    encode_admitted,
    encode_counters,
    encode_done,
    encode_ends,
    encode_page,
    file_number,
    sequence_key,
)
from crawler.job.recovery import COUNTERS, stored_counters
from crawler.job.steps.step_codec import Chunk, Mark, Step, Written
from crawler.job.step_log import MARK
from crawler.job.store.rocks import RocksStore
from crawler.job.transaction import OUTPUT_ENDS

LINE = 1
KEYS = 10  # that a page admits
SYNCED = 1_000  # pages
TOGETHER = 25  # pages in a chunk
MILLION = 1_000_000
PIECE = 2**16  # keys
ARCHIVE = file_number(1, 1)
SETTINGS = Settings(output=OutputSettings(("warc",), 2**40))


class Owner:
    """Makes the steps of a job that nobody has to crawl for."""

    def __init__(self, directory: Path, archived: int) -> None:
        store = RocksStore(directory / "store")
        try:
            self.counters = stored_counters(store)
            self.mark = Mark.decode(store.get(Family.META, MARK))
        finally:
            store.close()
        self._draw = np.random.default_rng(2)
        self._archived = archived
        self._ends = [0, 0]
        self.pages = 0

    def chunk(self) -> Chunk:
        """The next pages."""
        base, first = self.mark.line, self.mark.number + 1
        return Chunk(0, LINE, base, first, [self._step() for _ in range(TOGETHER)])

    def _step(self) -> Step:
        self.pages += 1
        counters, batch = self.counters, Batch()
        entry = Entry(f"http://h{self.pages % 1_000}.test/{self.pages}", 3, "http://h1.test/")
        archived = self._draw.bytes(self._archived)
        record = encode_page(PageRecord(entry, Outcome.FETCHED, 1e9, 200, content_type="text/html", size=30_000))
        written, positions = [], []
        for at, (file, data) in enumerate(((0, record), (ARCHIVE, archived))):
            written.append(Written(file, self._ends[at], data))
            self._ends[at] += len(data)
            positions.append(Position(file, self._ends[at], len(data), zlib.crc32(data)))
        batch.put(Family.ADMITTED, sequence_key(counters.sequence), encode_admitted(self._draw.bytes(16 * KEYS)))
        done = Done(Outcome.FETCHED, 200, entry, tuple(positions))
        batch.put(Family.DONE, sequence_key(counters.sequence + 1), encode_done(done))
        counters.sequence += 2
        counters.urls_admitted += KEYS
        counters.urls_excluded += KEYS  # none of them is pending
        batch.put(Family.META, COUNTERS, encode_counters(counters))
        batch.put(Family.META, OUTPUT_ENDS, encode_ends([End(ARCHIVE, self._ends[1])]))
        self.mark = Mark(LINE, self.mark.number + 1)
        batch.put(Family.META, MARK, self.mark.encode())
        return Step(batch.encode(), written)


def written_bytes() -> int:
    """What this process has handed to the operating system."""
    for line in Path("/proc/self/io").read_text("ascii").splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


class Spent:
    """CPU time and bytes written of what was called through it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.bytes = 0

    def call(self, does: Callable[..., Any], *args: Any) -> Any:
        began, before = time.process_time(), written_bytes()
        try:
            return does(*args)
        finally:
            self.seconds += time.process_time() - began
            self.bytes += written_bytes() - before


async def make_job(directory: Path, before: int) -> None:
    job = Job(directory, SETTINGS, time.time(), Platform(line=LINE))
    try:
        draw = np.random.default_rng(1)
        for start in range(0, before, PIECE):
            job.seen.restore(draw.bytes(16 * min(PIECE, before - start)))
        job.counters.sequence += 1
        await job.checkpoint(time.time())
        job.writer.apply(lambda batch: batch.put(Family.META, COUNTERS, encode_counters(job.counters)))
        await job.sync()
    finally:
        job.close()


def open_follower(directory: Path) -> Follower:
    return Follower(directory, Platform(), SETTINGS.output)


def follow(follower: Follower, owner: Owner, pages: int, interval: int) -> tuple[Spent, Spent]:
    """So many pages more."""
    steps, generations = Spent(), Spent()
    write = getattr(follower, "checkpoint", None)
    end = owner.pages + pages
    while owner.pages < end:
        steps.call(follower.apply, owner.chunk())
        if owner.pages % SYNCED == 0:
            steps.call(follower.sync)
        if owner.pages % interval == 0 and write is not None:
            generations.call(write, time.time())
    return steps, generations


def promoted(directory: Path, copy: Path) -> Spent:
    shutil.copytree(directory, copy)
    spent = Spent()
    try:
        job = spent.call(Job, copy, SETTINGS, time.time(), Platform(line=2))
        job.close()
    finally:
        shutil.rmtree(copy)
    return spent


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", default="0,1,2,4,8", help="millions, at which it takes over (0,1,2,4,8)")
    parser.add_argument("--before", type=int, default=0, help="million keys when it was copied (0)")
    parser.add_argument("--archived", type=int, default=2_000, help="bytes of an answer (2000)")
    parser.add_argument("--interval", type=int, default=12_000, help="pages between two generations (12000)")
    parser.add_argument("--dir", type=Path, help="where the directories are made")
    chosen = parser.parse_args(words)
    print("\n".join(describe_machine(("numpy", "mmh3", "rocksdict"))))
    print(f"\n{chosen.before} million keys before, {chosen.archived} bytes of an answer")
    print("      keys   promoted    wrote   reopened    wrote   following a key   generations a key    wrote")
    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
        job, replica = Path(name) / "job", Path(name) / "replica"
        asyncio.run(make_job(job, chosen.before * MILLION))
        shutil.copytree(job, replica)
        follower, owner = open_follower(replica), Owner(job, chosen.archived)
        for millions in map(int, chosen.keys.split(",")):
            more = millions * MILLION // KEYS - owner.pages
            steps, generations = follow(follower, owner, more, chosen.interval)
            follower.sync()
            follower.close()
            heir, again = promoted(replica, Path(name) / "copy"), Spent()
            follower = again.call(open_follower, replica)
            keys = max(1, more * KEYS)
            print(
                f"{millions * MILLION:>10,}{heir.seconds:>9.2f} s{heir.bytes / 1e6:>6,.0f} MB"
                f"{again.seconds:>9.2f} s{again.bytes / 1e6:>6,.0f} MB{steps.seconds / keys * 1e6:>15.2f} us"
                f"{generations.seconds / keys * 1e6:>17.3f} us{generations.bytes / 1e6:>6,.0f} MB",
                flush=True,
            )
        follower.close()


if __name__ == "__main__":
    main(sys.argv[1:])
