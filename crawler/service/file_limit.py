"""Fits a run into the limit on open files."""

from __future__ import annotations

import logging
import resource
from itertools import count

from crawler.job.directory import JobError
from crawler.job.store.store_budget import files_left

log = logging.getLogger("crawler")

_ENOUGH = 4_096  # files that a job opens, not counting connections
_OF_A_SLOT = 7  # sockets of a slot: one or two that are being opened, those that its URL uses, and idle ones
_VISITORS = 1_024  # maximum number of connections to a dashboard
_SHARE_OF_VISITORS = 8  # one of every this many open files may be a connection to a dashboard
_NAME = "the limit on open files (ulimit -Hn)"


def allow_files(concurrency: int, jobs: int = 1) -> int:
    """Raise the soft limit on open files to the number the run may need, up to the hard limit. ``jobs`` is the number
    of jobs the process may have open. Returns how many URLs may be in flight within the limit, at most
    ``concurrency``. Raises JobError if the limit does not allow even one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OF_A_SLOT * concurrency + _ENOUGH * jobs
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return concurrency
    _check(soft, jobs)
    slots = files_left(soft, jobs) // _OF_A_SLOT
    if slots < concurrency:
        log.warning("%s is %d: URLs in flight limited to %d instead of %d", _NAME, soft, slots, concurrency)
    return min(slots, concurrency)


def check_files(jobs: int) -> None:
    """Raise JobError if the hard limit is too low for one URL in flight with ``jobs`` jobs open. Changes no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        _check(hard, jobs)


def _check(limit: int, jobs: int) -> None:
    if files_left(limit, jobs) < _OF_A_SLOT:
        least = next(more for more in count(limit) if files_left(more, jobs) >= _OF_A_SLOT)
        what = "a crawl" if jobs == 1 else f"a crawl of {jobs} partitions"
        raise JobError(f"{_NAME} is {limit}: {what} needs at least {least}")


def connections_left() -> int:
    """Return the number of connections that a dashboard may have at a time without taking open files from the crawl."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _VISITORS if soft == resource.RLIM_INFINITY else max(1, min(_VISITORS, soft // _SHARE_OF_VISITORS))
