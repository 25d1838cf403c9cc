"""Reads the statistics of a running partitioned crawl from the files that its workers on this machine write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawler.job.crawl_file import CrawlFile, partition_directory, partitions_left
from crawler.job.directory import holds_job
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import read_live
from crawler.job.metrics.pooled_stats import Part, pool

_PATIENCE = 15.0  # seconds to wait for all partitions of a resumed crawl


class CrawlProgress:
    """Reads the statistics of a crawl's partitions. While a partition moves between workers, its last statistics are
    used."""

    def __init__(self, directory: Path, crawl: CrawlFile, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic."""
        self._directory = directory
        self._directories = [partition_directory(directory, number) for number in range(crawl.partitions)]
        self._parts = dict[int, Part]()
        self._elsewhere = set[int]()
        self.fetched = 0  # pages fetched on this machine since this object was created
        self._clock = clock
        self._began = clock()
        self._waits_until = clock() + _PATIENCE
        # Partitions with earlier data: until all of them are open, the totals of a resumed crawl would be too low.
        self._begun = {number for number, each in enumerate(self._directories) if holds_job(each)}

    def look(self) -> dict[str, Any] | None:
        """Return the statistics of the crawl; None if no partition has any yet or, for the first `_PATIENCE` seconds,
        if a partition with earlier data has none. Raises OSError."""
        for number, directory in enumerate(self._directories):
            live = read_live(directory)
            if live is not None:
                self._note(Part(number, live.stats, lock_holder(directory) or None))
        self._look_elsewhere()
        if not self._parts or (not self._begun <= self._parts.keys() and self._clock() < self._waits_until):
            return None
        stats = pool(list(self._parts.values()), len(self._directories), elsewhere=self._elsewhere)
        # Measured here, because the oldest run may have moved to another machine.
        return {**stats, "elapsed_seconds": self._clock() - self._began}

    def _note(self, part: Part) -> None:
        """Keep the statistics, and count only the pages that were fetched after the partition came to this machine."""
        before = self._parts.get(part.number, part)
        self.fetched += max(0, part.stats["pages_fetched"] - before.stats["pages_fetched"])
        self._parts[part.number] = part

    def _look_elsewhere(self) -> None:
        """Drop the statistics of partitions in other directories. Read errors are ignored, as they may be transient."""
        with contextlib.suppress(OSError):
            self._elsewhere = partitions_left(self._directory)
        self._parts = {number: part for number, part in self._parts.items() if number not in self._elsewhere}

    def pages(self) -> int:
        """Return the number of pages that are known to have been fetched."""
        return sum(part.stats["pages_fetched"] for part in self._parts.values())
