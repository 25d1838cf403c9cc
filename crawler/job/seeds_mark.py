"""Whether the seeds of a crawl in partitions are read: META of its partition 0 says so, under ``seeds``.

Not every process of a crawl is given the seeds. One that is not can go on with the partition that another one has left,
and must know whether all of them were read there.
"""

from __future__ import annotations

from crawler.base.kv import Family
from crawler.job.job import Job

SEEDS = b"seeds"
_READ, _BEGUN = b"read", b"begun"


def seeds_are_read(job: Job) -> bool:
    """Whether all seeds that were given to the last process that had any are admitted. Raises OSError."""
    return job.store.get(Family.META, SEEDS) == _READ


async def note_seeds(job: Job, *, read: bool) -> None:
    """Note that all seeds are admitted, or that they are still being read. Raises OSError."""
    if seeds_are_read(job) is read:
        return
    await job.room()
    with job.writer as transaction:
        transaction.batch.put(Family.META, SEEDS, _READ if read else _BEGUN)
