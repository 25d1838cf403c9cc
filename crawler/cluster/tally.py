"""Counts a member's own work, and pools the statistics of its partitions as if they were one crawl.

A partition's counts are those of its job, regardless of which process fetched its pages. A partition that moves to
another process is counted only there, so the sum over all members is the count of the whole crawl.
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
    """The counts of a member's partitions. If a partition was opened several times, only its last run is used."""

    def __init__(self, partitions: int) -> None:
        """``partitions``: the number of partitions of the crawl."""
        self._partitions = partitions
        self._over: dict[int, Part] = {}
        self._seeds: dict[int, int] = {}
        self._begun: dict[int, Mapping[str, int]] = {}  # the counts of a partition when it was opened here
        self._done = Counter[str]()  # this member's work in finished runs
        self.others = set[int]()  # partitions that other processes own
        self.last_seed_error: str | None = None

    def begin(self, partition: OpenPartition) -> None:
        """Record that a partition was opened."""
        self._begun[partition.number] = _counts(partition)

    def add(self, partition: OpenPartition) -> None:
        """Record that a run is over; its job is still open."""
        number, run = partition.number, partition.run
        self._over[number] = _part(partition)
        self._done.update(self._done_in(partition))
        del self._begun[number]
        self._seeds[number] = run.job.counters.seeds_fetched
        self.last_seed_error = run.visitor.last_seed_error or self.last_seed_error

    @property
    def seeds_fetched(self) -> int:
        """The number of seeds fetched in the member's partitions."""
        return sum(self._seeds.values())

    @property
    def had(self) -> int:
        """The number of partitions that were open here and no longer are."""
        return len(self._over.keys() - self._begun.keys())

    def done(self, open_now: Mapping[int, OpenPartition]) -> Counter[str]:
        """Return this process's own counts, by statistic name."""
        done = self._done.copy()
        for number in open_now.keys() & self._begun.keys():
            done.update(self._done_in(open_now[number]))
        return done

    def stats(self, open_now: Mapping[int, OpenPartition]) -> dict[str, Any]:
        """Return the pooled statistics of the open partitions and of those this member owned last; empty if there are
        none."""
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
