"""Opens what a run needs: the parts that all runs of a process share, and the job, waiting while the disk is full."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, no_room
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.loop_lag import LoopLag
from crawler.engine.slots import Slots
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.service.file_limit import allow_files
from crawler.web.fetch import Fetcher, OwnDelays

log = logging.getLogger("crawler")

_REST = 3.0  # pause before the next try, in durations of the last one: each try reads the store's logs again


class Shared(NamedTuple):
    """What the runs of a process share. At most ``slots.number`` URLs are in flight."""

    clock: SteadyClock
    lag: LoopLag
    slots: Slots
    fetcher: Fetcher


def open_shared(settings: Settings, jobs: int = 1) -> Shared:
    """Return the shared parts for this many jobs, within the limit on open files; the caller enters the fetcher. Raises
    JobError if the limit is too low."""
    lag, slots = LoopLag(), Slots(allow_files(settings.crawl.concurrency, jobs))
    delays = OwnDelays(lag.stalled, slots.wait)
    per_host = settings.politeness.per_host
    fetcher = Fetcher(Sites(settings), concurrency=slots.number, per_host=per_host, delays=delays)
    return Shared(SteadyClock(), lag, slots, fetcher)


async def open_job_of_run(
    directory: Path, settings: Settings, clock: SteadyClock, platform: Platform | None = None
) -> Job:
    """Open the job; if the disk is full, wait for space. Raises the other exceptions of ``Job``."""
    now = asyncio.get_running_loop().time
    waits = False
    while True:
        began = now()
        try:
            job = Job(directory, settings, clock(), platform, anchor=clock.anchor)
        except OSError as error:
            if error.errno not in FULL:
                raise
            if not waits:
                log.warning("the crawl has not started, nothing is lost: %s; waiting for space", no_room(error))
            waits = True
            await asyncio.sleep(max(settings.durability.sync_interval, _REST * (now() - began)))
        else:
            if waits:
                log.warning("disk space is available again: the crawl starts")
            return job
