"""Opens the job of a run. A full disk delays this, as it delays a run that has begun."""

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

_REST = 3.0  # times the duration of a try: the pause before the next, because each reads the logs of the store again


async def open_job_of_run(
    directory: Path, settings: Settings, clock: SteadyClock, platform: Platform | None = None
) -> Job:
    """Open the job; if the disk is full, wait until it has room. Raises what ``Job`` raises, but not for a full
    disk."""
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
                log.warning("the crawl has not begun, nothing is lost: %s; waiting for space", no_room(error))
            waits = True
            await asyncio.sleep(max(settings.durability.sync_interval, _REST * (now() - began)))
        else:
            if waits:
                log.warning("disk space is available again: the crawl begins")
            return job
