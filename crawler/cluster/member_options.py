"""What all members of a crawl agree on, and what the caller of a member chooses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.settings.parts import Settings, SiteGroups
from crawler.cluster.claims import boot_time
from crawler.cluster.stored_partitions import StoredPartitions
from crawler.engine.lifecycle import Stop
from crawler.engine.loop_lag import LoopLag
from crawler.engine.run import Run
from crawler.engine.slots import Slots
from crawler.engine.user_code import UserCode
from crawler.job.crawl_file import CrawlFile, partition_directory, place_of
from crawler.job.partition.placement import Placement
from crawler.job.platform import Platform
from crawler.web.fetch import Fetches

log = logging.getLogger("crawler")

LEAST_CAPACITY = 4_096  # of the first slice of a partition's filter


class Crawl(Struct, frozen=True):
    """A crawl of ``partitions`` partitions, those of which that are in ``directory``, which alone has this
    ``directory_id``. ``secret`` decides which URLs belong to which partition. ``by_host``, ``groups``: see
    ``Placement``."""

    directory: Path
    partitions: int
    secret: bytes
    directory_id: str = ""
    by_host: bool = False
    groups: SiteGroups = ()

    @classmethod
    def of(cls, directory: Path, crawl: CrawlFile) -> Self:
        """The crawl that a directory is of."""
        return cls(directory, crawl.partitions, crawl.secret, crawl.id, crawl.by_host, crawl.groups)

    @property
    def placement(self) -> Placement:
        """Which partition a URL belongs to."""
        return Placement(self.secret, self.partitions, by_host=self.by_host, groups=self.groups)

    def partition(self, number: int) -> Path:
        """The directory of a partition, which is that of a job."""
        return partition_directory(self.directory, number)

    def settings_of_partition(self, settings: Settings) -> Settings:
        """The settings of the crawl as one partition has them."""
        share = max(LEAST_CAPACITY, settings.seen.capacity // self.partitions)
        return replace(settings, seen=replace(settings.seen, capacity=share))


def settings_later(settings: Settings, seconds: float) -> Settings:
    """The settings of a run that begins so many seconds after the time limit began."""
    limit = settings.crawl.max_time
    if limit is None:
        return settings
    return replace(settings, crawl=replace(settings.crawl, max_time=max(0.001, limit - seconds)))


async def no_seeds() -> AsyncIterator[list[str]]:
    """Seeds of a partition that reads none."""
    return
    yield


def _nothing(number: int, run: Run) -> None:
    """Nobody is to be told."""


class MemberOptions(Struct, kw_only=True):
    """What a member works with. The caller opens and closes ``fetcher``, which knows ``lag`` and ``slots``. ``seeds``
    are read when partition 0 is opened here.

    ``name`` is that of this worker, which it keeps when it is started again; None: it has one for each start.
    ``expected``: how many members to wait for before partitions are shared out. ``own_rate``: the requests a second
    of this process at most, whatever it is lent of those of the crawl. ``opened`` and ``closing`` get each
    partition and its run, before it begins and when it is over, but its job is still open. ``notice`` says lines to the
    user. ``boottime`` counts on while the process is stopped. ``beside`` runs what opens and closes jobs, beside
    the event loop. ``place`` says where a directory is, so that a copy of it is somewhere else. ``stored``: the
    partitions of this process in the store of the crawl; None: it lives in its directory."""

    fetcher: Fetches
    clock: Callable[[], float]
    lag: LoopLag | None = None
    slots: Slots | None = None
    seeds: Callable[[], AsyncIterator[list[str]]] = no_seeds
    code: UserCode = field(default_factory=UserCode)
    name: str | None = None
    expected: int = 1
    own_rate: float | None = None
    opened: Callable[[int, Run], None] = _nothing
    closing: Callable[[int, Run], None] = _nothing
    notice: Callable[[str], None] = log.warning
    boottime: Callable[[], float] = boot_time
    platform: Platform = field(default_factory=Platform)
    beside: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
    place: Callable[[Path], str] = place_of
    stored: StoredPartitions | None = None

    @property
    def has_seeds(self) -> bool:
        """Whether this process is given the seeds of the crawl."""
        return self.seeds is not no_seeds


class MemberResult(Struct, frozen=True):
    """How the work of a member ended. ``stats`` are those of its partitions, pooled; empty if it has none. ``done``
    counts what it has done itself, and ``had`` the partitions that it had at some time. ``unstored``: those whose last
    steps are only in the directory, because the store of the crawl did not take them."""

    reason: Stop
    stats: dict[str, Any]
    seeds_fetched: int
    last_seed_error: str | None
    done: Mapping[str, int] = {}
    had: int = 0
    seconds: float = 0.0
    unstored: Collection[int] = ()
