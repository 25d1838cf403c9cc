"""What a member tells of its partitions: the statistics of those that it has, as those of one crawl, and what it has
done itself.

The counts of a partition are those of its job, whoever fetched. A partition that another process goes on with is told
of there, so that the sum over all who work on a crawl is that of the crawl.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from crawler.cluster.open_partition import OpenPartition
from crawler.job.metrics.pooled_stats import Part, pool

_DONE = ("pages_fetched", "pages_failed", "pages_redirected", "urls_excluded", "urls_admitted")


class Tally:
    """What the partitions of a member have done. Of one that was opened several times, the last run tells."""

    def __init__(self, partitions: int) -> None:
        """``partitions``: how many the crawl has."""
        self._partitions = partitions
        self._over: dict[int, Part] = {}
        self._seeds: dict[int, int] = {}
        self._begun: dict[int, Mapping[str, int]] = {}  # the counts of a partition when it was opened here
        self._done = Counter[str]()  # of the runs that are over
        self.others = set[int]()  # partitions that other processes have
        self.last_seed_error: str | None = None

    def begin(self, partition: OpenPartition) -> None:
        """A partition was opened."""
        self._begun[partition.number] = _counts(partition)

    def add(self, partition: OpenPartition) -> None:
        """A run is over; its job is still open."""
        number, run = partition.number, partition.run
        self._over[number] = _part(partition)
        self._done.update(self._done_in(partition))
        del self._begun[number]
        self._seeds[number] = run.job.counters.seeds_fetched
        self.last_seed_error = run.last_seed_error or self.last_seed_error

    @property
    def seeds_fetched(self) -> int:
        """The seeds that were fetched in these partitions."""
        return sum(self._seeds.values())

    @property
    def had(self) -> int:
        """How many partitions were open here at some time, and are not now."""
        return len(self._over.keys() - self._begun.keys())

    def done(self, open_now: Mapping[int, OpenPartition]) -> Counter[str]:
        """What this process has done, by the names of the statistics."""
        done = self._done.copy()
        for number in open_now.keys() & self._begun.keys():
            done.update(self._done_in(open_now[number]))
        return done

    def stats(self, open_now: Mapping[int, OpenPartition]) -> dict[str, Any]:
        """The statistics of the partitions that this member had last of all, and of those that are open; empty if there
        are none."""
        parts = {number: part for number, part in self._over.items() if number not in self.others}
        parts.update({number: _part(partition) for number, partition in open_now.items()})
        return pool(list(parts.values()), self._partitions, beside=self.others) if parts else {}

    def _done_in(self, partition: OpenPartition) -> Counter[str]:
        done = Counter(_counts(partition))
        done.subtract(self._begun[partition.number])
        return done


def _part(partition: OpenPartition) -> Part:
    waiting = sum(partition.outbox.waiting().values())
    return Part(partition.number, partition.run.stats(), os.getpid(), waiting)


def _counts(partition: OpenPartition) -> dict[str, int]:
    return {key: getattr(partition.job.counters, key) for key in _DONE}
