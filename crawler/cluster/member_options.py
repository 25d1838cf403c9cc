"""The crawl that all members agree on, and the options of one member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.clock import boot_time
from crawler.base.settings.parts import Settings, SiteGroups
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

LEAST_CAPACITY = 4_096  # keys in the first slice of a partition's filter


class Crawl(Struct, frozen=True):
    """A crawl with this number of ``partitions``, some of them in ``directory``, whose unique id is ``directory_id``.
    ``secret`` decides which partition a URL belongs to. ``by_host``, ``groups``: see ``Placement``."""

    directory: Path
    partitions: int
    secret: bytes
    directory_id: str = ""
    by_host: bool = False
    groups: SiteGroups = ()

    @classmethod
    def of(cls, directory: Path, crawl: CrawlFile) -> Self:
        """Return the crawl described by the crawl file of a directory."""
        return cls(directory, crawl.partitions, crawl.secret, crawl.id, crawl.by_host, crawl.groups)

    @property
    def placement(self) -> Placement:
        """The mapping from URLs to partitions."""
        return Placement(self.secret, self.partitions, by_host=self.by_host, groups=self.groups)

    def partition(self, number: int) -> Path:
        """Return the directory of a partition, which is a job directory."""
        return partition_directory(self.directory, number)

    def settings_of_partition(self, settings: Settings) -> Settings:
        """Return the crawl's settings as they apply to one partition."""
        share = max(LEAST_CAPACITY, settings.seen.capacity // self.partitions)
        return replace(settings, seen=replace(settings.seen, capacity=share))


def settings_later(settings: Settings, seconds: float) -> Settings:
    """Return the settings for a run that starts ``seconds`` after the time limit started."""
    limit = settings.crawl.max_time
    if limit is None:
        return settings
    return replace(settings, crawl=replace(settings.crawl, max_time=max(0.001, limit - seconds)))


async def no_seeds() -> AsyncIterator[list[str]]:
    """Yield no seeds, for partitions that read none."""
    return
    yield


def _nothing(number: int, run: Run) -> None:
    """Do nothing, whatever the arguments."""


class MemberOptions(Struct, kw_only=True):
    """The caller's choices for a member. The caller opens and closes ``fetcher``, which knows ``lag`` and ``slots``.
    ``seeds`` are read when partition 0 is opened here.

    ``name`` is the name of this worker, which it keeps across restarts; None: a new name for each start. ``expected``:
    the number of members to wait for before partitions are shared out. ``own_rate``: the maximum requests a second of
    this process, however large its share of the crawl's rate. ``opened`` and ``closing`` are called with each partition
    and its run, before the run starts and when it is over but its job is still open. ``notice`` prints lines for the
    user. ``boottime`` is a clock that keeps counting while the process is stopped. ``beside`` opens and closes jobs
    outside the event loop. ``place`` identifies the location of a directory, and differs for a copy of it. ``stored``:
    this process's partitions in the crawl's store; None: the crawl lives in its directory.
    """

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
        """True if this process is given the seeds of the crawl."""
        return self.seeds is not no_seeds


class MemberResult(Struct, frozen=True):
    """How a member's work ended. ``stats``: the pooled statistics of its partitions; empty if it has none. ``done``
    counts its own work, and ``had`` the partitions it once owned. ``unstored``: partitions whose last steps are only in
    the directory, because the crawl's store did not accept them."""

    reason: Stop
    stats: dict[str, Any]
    seeds_fetched: int
    last_seed_error: str | None
    done: Mapping[str, int] = {}
    had: int = 0
    seconds: float = 0.0
    unstored: Collection[int] = ()
