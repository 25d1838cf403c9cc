"""The statistics of a crawl in partitions while it runs, from what its workers on this machine write of each."""

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

_PATIENCE = 15.0  # seconds for all partitions of a crawl that goes on


class CrawlProgress:
    """Looks at the partitions of a crawl. Of one that is just changing hands, what it said last counts."""

    def __init__(self, directory: Path, crawl: CrawlFile, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` only goes forward."""
        self._directory = directory
        self._directories = [partition_directory(directory, number) for number in range(crawl.partitions)]
        self._parts = dict[int, Part]()
        self._elsewhere = set[int]()
        self.fetched = 0  # pages that were seen to be fetched here
        self._clock = clock
        self._began = clock()
        self._waits_until = clock() + _PATIENCE
        # Without those that are still to be opened, a crawl that goes on would seem to have lost pages.
        self._begun = {number for number, each in enumerate(self._directories) if holds_job(each)}

    def look(self) -> dict[str, Any] | None:
        """Return the statistics of the crawl; None as long as no partition has any, or one that had begun before has
        not said anything yet, but not for long. Raises OSError."""
        for number, directory in enumerate(self._directories):
            live = read_live(directory)
            if live is not None:
                self._note(Part(number, live.stats, lock_holder(directory) or None))
        self._look_elsewhere()
        if not self._parts or (not self._begun <= self._parts.keys() and self._clock() < self._waits_until):
            return None
        stats = pool(list(self._parts.values()), len(self._directories), elsewhere=self._elsewhere)
        # The oldest run may have moved away.
        return {**stats, "elapsed_seconds": self._clock() - self._began}

    def _note(self, part: Part) -> None:
        """Pages that were fetched before a partition came here were not fetched here."""
        before = self._parts.get(part.number, part)
        self.fetched += max(0, part.stats["pages_fetched"] - before.stats["pages_fetched"])
        self._parts[part.number] = part

    def _look_elsewhere(self) -> None:
        """Tell nothing of what other directories have. What cannot be read now may be later."""
        with contextlib.suppress(OSError):
            self._elsewhere = partitions_left(self._directory)
        self._parts = {number: part for number, part in self._parts.items() if number not in self._elsewhere}

    def pages(self) -> int:
        """How many pages were fetched, as far as is known."""
        return sum(part.stats["pages_fetched"] for part in self._parts.values())
