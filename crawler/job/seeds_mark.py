"""Records whether the seeds of a partitioned crawl have been read, in META of its partition 0 under ``seeds``.

Not every process of a crawl is given the seeds. A process without them may take over the partition from another one,
and must know whether the earlier process has read all seeds.
"""

from __future__ import annotations

from crawler.base.kv import Family
from crawler.job.job import Job

SEEDS = b"seeds"
_READ, _BEGUN = b"read", b"begun"


def seeds_are_read(job: Job) -> bool:
    """True if all seeds given to the last process that received any have been admitted. Raises OSError."""
    return job.store.get(Family.META, SEEDS) == _READ


async def note_seeds(job: Job, *, read: bool) -> None:
    """Record that all seeds are admitted, or that they are still being read. Raises OSError."""
    if seeds_are_read(job) is read:
        return
    await job.room()
    with job.writer as transaction:
        transaction.batch.put(Family.META, SEEDS, _READ if read else _BEGUN)
