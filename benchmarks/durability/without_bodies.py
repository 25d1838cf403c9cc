"""What replicas without bodies save on the carrier, and how many pages are fetched again when one takes over.

    python benchmarks/durability/without_bodies.py [--pages 2000]

A made web of manuals is crawled in this process from a table, with RocksDB and real files but without sockets, with the
outputs warc, links and bodies, as one partition: once with ``replica_bodies``, and once without. After half of the
pages the job is copied, and a replica follows its steps. After three quarters the job is lost: it is never opened
again, and its replica goes on to the end.

    copy, steps    bytes of the sealed messages, of the copy over the pages that the job had by then, of the steps over
                   those that came since
    again          pages that the job had finished and the replica fetches again, in the share of those finished
    CPU            seconds of what makes them pending again, for each page that the replica had
    missing, twice pages of the web without a record in the end, and records of a URL that has one already
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from msgspec.structs import replace

from benchmarks.durability.copy_cost import CODEC, SETTINGS, Answers, seeds, table, take
from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import make_files
from crawler.base.disk import RealDisk
from crawler.base.settings.parts import PartitionSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.inspect.integrity.left_out import fetch_left_out
from crawler.inspect.integrity.verifier import verify_job
from crawler.job.copy_target import CopyTarget
from crawler.job.directory import PAGES
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.job_copy import JobCopy
from crawler.job.output import lines_of
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform
from crawler.job.steps.step_codec import Chunk
from crawler.web.fetch import SimulatedWeb
from tests.driving import Driven
from tests.faulty_disk import PowerCutError

GATHERED = 25  # pages between two chunks


@dataclass
class Life:
    """A crawl whose disk is lost."""

    top: Path
    answers: Answers
    bodies: bool
    asked: list[str] = field(default_factory=list)
    copy: int = 0  # bytes
    copied: int = 0  # pages
    steps: int = 0  # bytes
    finished: int = 0  # pages of the replica when it took over
    again: int = 0
    seconds: float = 0.0

    @property
    def settings(self) -> Settings:
        return replace(SETTINGS, partitions=PartitionSettings(replica_bodies=self.bodies))

    @property
    def replica(self) -> Path:
        return self.top / "replicas" / "00"

    def job(self, directory: Path, line: int) -> Job:
        router = PartitionRouter(0, Placement(b"the secret of a crawl", 1))
        return Job(directory, self.settings, time.time(), Platform(line=line), router=router)

    async def crawl(self, job: Job, web: SimulatedWeb) -> Stop:
        names = sorted({href.split("/")[2] for href in self.answers})
        return await Driven(
            job, web, self.settings, time.time, seeds([f"http://{name}/" for name in names])
        ).to_the_end()

    async def owner(self) -> None:
        half, lost = len(self.answers) // 2, len(self.answers) * 3 // 4
        job = self.job(self.top / "job", 1)
        follower: Follower | None = None
        copying = asyncio.Lock()

        async def before(href: str) -> None:
            nonlocal follower
            self.asked.append(href)
            async with copying:
                if follower is None and len(self.asked) >= half:
                    follower = await self.begin(job)
                elif follower is not None and len(self.asked) % GATHERED == 0:
                    self.follow(job, follower)
            if len(self.asked) >= lost:
                raise PowerCutError

        try:
            with contextlib.suppress(PowerCutError):
                await self.crawl(job, SimulatedWeb(self.answers, before))
            assert follower is not None
            self.follow(job, follower)
            follower.sync()
        finally:
            if follower is not None:
                follower.close()
            job.close()

    async def begin(self, job: Job) -> Follower:
        target = CopyTarget(self.replica.parent, self.replica.name, RealDisk())
        self.copied = job.counters.pages_fetched
        async with JobCopy(job, 0, CODEC) as copy:
            while (message := await copy.next()) is not None:
                self.copy += len(message)
                await asyncio.to_thread(take, target, message)
        return Follower(self.replica, Platform().of_partition(0, 1), self.settings.output)

    def follow(self, job: Job, follower: Follower) -> None:
        while (chunk := job.log.after(follower.mark, 0)) is not None:
            message = CODEC.encode(chunk)
            self.steps += len(message)
            decoded = CODEC.decode(message)
            assert isinstance(decoded, Chunk)
            follower.apply(decoded)
        job.log.forget(follower.mark)

    async def heir(self) -> None:
        async def before(href: str) -> None:
            self.asked.append(href)

        self.finished = sum(1 for _ in lines_of(self.replica / PAGES))
        began = time.process_time()
        self.again = fetch_left_out(self.replica, time.time(), RealDisk())
        self.seconds = time.process_time() - began
        job = self.job(self.replica, 2)
        try:
            assert await self.crawl(job, SimulatedWeb(self.answers, before)) is Stop.FINISHED
        finally:
            job.close()

    def tell(self) -> None:
        rows = Counter(json.loads(line)["url"] for _, line in lines_of(self.replica / PAGES))
        missing = self.answers.keys() - rows.keys()
        twice = [url for url, times in rows.items() if times > 1]
        found = list(verify_job(self.replica))
        since = self.finished - self.copied
        print(f"\nreplica_bodies = {'true' if self.bodies else 'false'}")
        print(f"  copy       {self.copy / self.copied:>10,.0f} bytes a page, {self.copied:,} pages")
        print(f"  steps      {self.steps / since:>10,.0f} bytes a page, {since:,} pages")
        print(f"  again      {self.again:>10,} of {self.finished:,} pages ({self.again / self.finished:.0%})")
        print(f"  CPU        {self.seconds / self.finished * 1e3:>10.2f} ms a page")
        print(f"  missing    {len(missing):>10}")
        print(f"  twice      {len(twice):>10}")
        print(f"  findings   {len(found):>10}  of crawler verify in the end")
        print(f"  asked      {len(self.asked):>10,} times for {len(self.answers):,} pages")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=2_000, help="of the web (2000)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    with tempfile.TemporaryDirectory() as home:
        answers = table(make_files(Path(home) / "web", pages=chosen.pages), "h")
        for bodies in (True, False):
            life = Life(Path(home) / str(bodies), answers, bodies)
            asyncio.run(life.owner())
            asyncio.run(life.heir())
            life.tell()


if __name__ == "__main__":
    main(sys.argv[1:])
