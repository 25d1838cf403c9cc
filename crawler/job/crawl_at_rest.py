"""A crawl in partitions of which no process runs a partition, held so while somebody changes several of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawler.job.crawl_file import holds_crawl, partition_directories
from crawler.job.directory import JobError
from crawler.job.job_lock import JobLock, lock_holder


@contextmanager
def at_rest(directory: Path) -> Iterator[None]:
    """Within it, no first process of the crawl can begin. Raises JobError if a process runs it, or a partition of it;
    nothing is changed then. A job without partitions has a lock of its own."""
    if not holds_crawl(directory):
        yield
        return
    try:
        lock = JobLock(directory)
    except OSError as error:
        raise JobError(f"cannot use crawl directory {directory}: {error.strerror}") from error
    try:
        for partition in partition_directories(directory):
            if (holder := lock_holder(partition)) is not None:
                raise JobError(f"{partition} is in use by process {holder or 'unknown'}: stop the crawl first")
        yield
    finally:
        lock.release()
