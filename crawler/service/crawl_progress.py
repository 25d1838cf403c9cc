"""The statistics of a crawl in partitions while it runs, from what its workers on this machine write of each."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawler.disk import RealDisk
from crawler.inspect.crowded_domain import CrowdWatch
from crawler.job.crawl_file import CrawlFile, partition_directory
from crawler.job.directory import JobError
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import read_live
from crawler.job.stored_errors import DAMAGE
from crawler.metrics.pooled_stats import Part, pool


class CrawlProgress:
    """Looks at the partitions of a crawl. Of one that is just changing hands, what it said last counts."""

    def __init__(self, directory: Path, crawl: CrawlFile) -> None:
        self._directories = [partition_directory(directory, number) for number in range(crawl.partitions)]
        self._parts = dict[int, Part]()
        self._crowd = CrowdWatch(directory, crawl, RealDisk())

    def look(self) -> dict[str, Any] | None:
        """Return the statistics of the crawl; None as long as no partition has any. Raises OSError."""
        for number, directory in enumerate(self._directories):
            live = read_live(directory)
            if live is not None:
                self._parts[number] = Part(number, live.stats, lock_holder(directory) or None)
        return pool(list(self._parts.values()), len(self._directories)) if self._parts else None

    def advice(self, stats: Mapping[str, Any]) -> str | None:
        """A line that is to be said once. What cannot be read now may be later."""
        with contextlib.suppress(JobError, OSError, *DAMAGE):
            return self._crowd.look(stats["partitions"])
        return None

    def pages(self) -> int:
        """How many pages were fetched, as far as is known."""
        return sum(part.stats["pages_fetched"] for part in self._parts.values())
