"""Copies a job to a replica in a process of its own, which may be killed: ``python -m tests.job.replica.copying_child
JOB REPLICAS``."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path

from crawler.base.disk import RealDisk
from crawler.base.kv import Batch, Family
from crawler.job.copy_target import CopyTarget, clear_copies
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.job_copy import JobCopy
from crawler.job.platform import Platform
from crawler.job.replica.step_codec import Mark
from tests.job.replica.copied import CODEC, EVERYTHING, PARTITION, part_of_a_copy

NAME = "03"


async def copy_and_follow(directory: Path, replicas: Path, line: int) -> Mark:
    """Copy the job, change it, and have the replica follow. Returns the last step of both."""
    clear_copies(replicas)
    with closing(Job(directory, EVERYTHING, 1e6, Platform(line=line))) as job:
        target = CopyTarget(replicas, NAME, RealDisk())
        async with JobCopy(job, PARTITION, CODEC, size=64 * 1024) as copy:
            while (message := await copy.next()) is not None:
                target.take(part_of_a_copy(message))
        job.change_hosts(_change)
        with closing(Follower(replicas / NAME, Platform(), EVERYTHING.output)) as follower:
            follow(job, follower)
        return job.log.mark


def _change(batch: Batch) -> None:
    batch.put(Family.META, b"a change", b"")


def follow(job: Job, follower: Follower) -> None:
    """Apply all that the log has after what the replica holds."""
    while (chunk := job.log.after(follower.mark, PARTITION)) is not None:
        follower.apply(chunk)
    assert follower.mark == job.log.mark


if __name__ == "__main__":
    asyncio.run(copy_and_follow(Path(sys.argv[1]), Path(sys.argv[2]), 3))
