"""Keeps a partitioned crawl stopped while several of its partitions are changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawler.job.crawl_file import holds_crawl, partition_directories
from crawler.job.directory import JobError
from crawler.job.job_lock import JobLock, lock_holder


@contextmanager
def at_rest(directory: Path) -> Iterator[None]:
    """Prevent processes from starting the crawl in this context. Does nothing for an unpartitioned job, which has its
    own lock. Raises JobError, with nothing changed, if a process runs the crawl or one of its partitions."""
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
