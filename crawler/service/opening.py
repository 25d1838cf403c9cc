"""Opens the job of a run, and waits while the disk is full, as a running crawl does."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, no_room
from crawler.base.settings.parts import Settings
from crawler.job.job import Job
from crawler.job.platform import Platform

log = logging.getLogger("crawler")

_REST = 3.0  # pause before the next try, in durations of the last one: each try reads the store's logs again


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
