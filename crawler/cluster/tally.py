"""The statistics of the partitions that a member has or had, as those of one crawl."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from crawler.cluster.open_partition import OpenPartition
from crawler.metrics.pooled_stats import Part, pool


class Tally:
    """What the partitions of a member have done. Of one that was opened several times, the last run tells: counts are
    those of its job."""

    def __init__(self, partitions: int) -> None:
        """``partitions``: how many the crawl has."""
        self._partitions = partitions
        self._over: dict[int, Part] = {}
        self._seeds: dict[int, int] = {}
        self.last_seed_error: str | None = None

    def add(self, partition: OpenPartition) -> None:
        """A run is over; its job is still open."""
        number, run = partition.number, partition.run
        self._over[number] = _part(partition)
        self._seeds[number] = run.job.counters.seeds_fetched
        self.last_seed_error = run.last_seed_error or self.last_seed_error

    @property
    def seeds_fetched(self) -> int:
        """The seeds that were fetched in these partitions."""
        return sum(self._seeds.values())

    def stats(self, open_now: Mapping[int, OpenPartition], elsewhere: Collection[int]) -> dict[str, Any]:
        """The statistics of the runs that are over, and of those that are open; empty if there was none yet. Other
        partitions are at home ``elsewhere``, or nothing was given to them yet."""
        parts = {**self._over, **{number: _part(partition) for number, partition in open_now.items()}}
        return pool(list(parts.values()), self._partitions, elsewhere=elsewhere) if parts else {}


def _part(partition: OpenPartition) -> Part:
    waiting = sum(partition.outbox.waiting().values())
    return Part(partition.number, partition.run.stats(), os.getpid(), waiting)
