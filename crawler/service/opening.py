"""Opens the things that a run needs: the parts that all runs of a process share, the job, and its bucket."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, RealDisk, no_room
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.loop_lag import LoopLag
from crawler.engine.slots import Slots
from crawler.job.bucket.address import check_apart, open_objects
from crawler.job.bucket.objects import Objects
from crawler.job.bucket.ownership import Holding, own, read_here
from crawler.job.identity import check_shape, shaping_of
from crawler.job.job import Job
from crawler.job.platform import Platform, new_line
from crawler.service.file_limit import allow_files
from crawler.web.fetch import Fetcher, OwnDelays

log = logging.getLogger("crawler")

_REST = 3.0  # pause between tries, as a multiple of the last try's duration: each try reads the store's logs


class Shared(NamedTuple):
    """The objects that all runs of a process share. At most ``slots.number`` URLs are in flight."""

    clock: SteadyClock
    lag: LoopLag
    slots: Slots
    fetcher: Fetcher


def open_shared(settings: Settings, jobs: int = 1) -> Shared:
    """Return the shared parts for this many jobs, within the limit on open files; the caller must enter the fetcher as
    a context. Raises JobError if the limit is too low."""
    lag, slots = LoopLag(), Slots(allow_files(settings.crawl.concurrency, jobs))
    delays = OwnDelays(lag.stalled, slots.wait)
    per_host = settings.politeness.per_host
    fetcher = Fetcher(Sites(settings), concurrency=slots.number, per_host=per_host, delays=delays)
    return Shared(SteadyClock(), lag, slots, fetcher)


async def open_job_of_run(
    directory: Path, settings: Settings, clock: SteadyClock, platform: Platform | None = None
) -> Job:
    """Open the job; if the disk is full, wait for space, as a running crawl does. Raises the other exceptions of
    ``Job``."""
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


def bucket_of(directory: Path, settings: Settings) -> Objects | None:
    """Return the bucket that the settings name, or else the one recorded in the directory; None if the crawl has no
    bucket. Raises BucketError, BucketDown, JobError, OSError."""
    here, address = read_here(directory), settings.crawl.store
    if address is None and here is None:
        return None
    address = here.address if address is None and here is not None else str(address)
    check_apart(directory, address)
    return open_objects(address)


async def hold_bucket(directory: Path, settings: Settings, clock: SteadyClock) -> Holding | None:
    """Become the owner of the crawl in its bucket. Returns None if the crawl has no bucket. Raises the exceptions of
    ``own``, and FixedSettingError if the job there has other shaping settings."""
    objects = bucket_of(directory, settings)
    if objects is None:
        return None

    def check(job: Path) -> None:
        check_shape(job, shaping_of(settings), directory)

    holding = await asyncio.to_thread(own, objects, directory, RealDisk(), clock(), check)
    if holding.was is not None and not holding.was_released:
        log.warning("the crawl in %s was at %s, and continues here", objects.address, holding.was.place)
    if holding.behind:
        log.warning("%s lacked data that %s has, and was restored", directory, objects.address)
    return holding


def platform_of(holding: Holding | None) -> Platform:
    """Return the platform of the job; it has a log of steps if there is a bucket."""
    return Platform() if holding is None else Platform(line=new_line())
