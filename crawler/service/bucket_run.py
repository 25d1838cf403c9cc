"""The bucket of a crawl in one process: becomes its owner, and sets up the job's platform."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.disk import RealDisk
from crawler.base.settings.parts import Settings
from crawler.job.bucket.address import check_apart, open_objects
from crawler.job.bucket.objects import Objects
from crawler.job.bucket.ownership import Holding, own, read_here
from crawler.job.identity import check_shape, shaping_of
from crawler.job.platform import Platform, new_line

log = logging.getLogger("crawler")


def bucket_of(directory: Path, settings: Settings) -> Objects | None:
    """Return the bucket in the settings, or else that of the directory; None if the crawl has no bucket. Raises
    BucketError, BucketDown, JobError, OSError."""
    here, address = read_here(directory), settings.crawl.store
    if address is None and here is None:
        return None
    address = here.address if address is None and here is not None else str(address)
    check_apart(directory, address)
    return open_objects(address)


async def hold_bucket(directory: Path, settings: Settings, clock: SteadyClock) -> Holding | None:
    """Become the owner of the crawl in its bucket; None if it has no bucket. Raises the exceptions of ``own``, and
    FixedSettingError if the job there has other shaping settings."""
    objects = bucket_of(directory, settings)
    if objects is None:
        return None

    def check(job: Path) -> None:
        check_shape(job, shaping_of(settings))

    holding = await asyncio.to_thread(own, objects, directory, RealDisk(), clock(), check)
    if holding.was is not None and not holding.was_released:
        log.warning("the crawl in %s was at %s, and continues here", objects.address, holding.was.place)
    if holding.behind:
        log.warning("%s lacked data that %s has, and was restored", directory, objects.address)
    return holding


def platform_of(holding: Holding | None) -> Platform:
    """Return the platform of the job: with a log of steps if there is a bucket."""
    return Platform() if holding is None else Platform(line=new_line())
