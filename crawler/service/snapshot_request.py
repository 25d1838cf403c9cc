"""Requests a snapshot of a job from its running crawl. If no crawl runs, this process makes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from crawler.base.disk import RealDisk
from crawler.job.directory import STORE, JobError
from crawler.job.inbox import Inbox
from crawler.job.job_lock import JobLock, lock_holder
from crawler.job.live_status import read_live
from crawler.job.snapshot import make_snapshot, remove_snapshot
from crawler.job.store.rocks import copy_closed
from crawler.service.commands import NOT_RUNNING, SNAPSHOT, Command, Refusal, Refused, give_command

WAIT = 600.0  # seconds to wait for a crawl's answer: the crawl first writes the changes in its memory to tables
_WAIT_UNKNOWN = 60.0  # seconds to wait for a process that may not be a crawl and may never answer
_POLL = 0.2
_TRIES = 300  # number of tries while a crawl starts or ends: one minute in all


async def request_snapshot(directory: Path) -> Refused | None:
    """Request or make ``DIR/snapshot``. Returns None once it exists, else the refusal. Raises JobError and OSError."""
    refused: Refused | None = None
    for _ in range(_TRIES):
        remove_snapshot(directory)
        pid = lock_holder(directory)
        if pid is None:
            try:
                lock = JobLock(directory)
            except JobError:
                continue  # a crawl has started in the meantime
            try:
                make_snapshot(directory, lambda to: copy_closed(directory / STORE, Path(to)))
            finally:
                lock.release()
            return None
        wait = _WAIT_UNKNOWN if read_live(directory) is None else WAIT
        asking = asyncio.create_task(give_command(Inbox(directory, RealDisk()), pid, Command(SNAPSHOT), wait))
        while not asking.done() and lock_holder(directory) == pid:
            await asyncio.wait({asking}, timeout=_POLL)
        if not asking.done():  # the crawl has ended, perhaps without checking its inbox again
            asking.cancel()
            await asyncio.wait({asking})
            continue
        result = asking.result()
        if not isinstance(result, Refused):
            return None
        refused = result
        if refused.why is Refusal.NO_ANSWER and lock_holder(directory) == pid:
            text = f"process {pid} uses the job and does not answer: make the backup after it has ended"
            return Refused(refused.why, text)
        if refused != NOT_RUNNING and lock_holder(directory) == pid:
            return refused
        await asyncio.sleep(_POLL)
    return refused
