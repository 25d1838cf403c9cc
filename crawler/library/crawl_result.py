"""The result of a crawl that a program ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawler.base.figures import count, counted
from crawler.inspect.job_view import JobView, Records
from crawler.job.metrics.sentences import urls_of


class CrawlResult:
    """A crawl that has ended or stopped at a limit. ``stats`` are its last statistics; ``job`` reads all that it has
    stored."""

    def __init__(self, directory: Path, stats: dict[str, Any], fetched_before: int) -> None:
        """``fetched_before`` is the value of ``pages_fetched`` when the run started."""
        self.stats = stats
        self.job = JobView(directory)
        self._fetched = stats["pages_fetched"] - fetched_before

    def __repr__(self) -> str:
        pages = f"{counted(urls_of(self.stats, 'fetched'), 'page')} ({count(self._fetched)} in this run)"
        left = f"{count(urls_of(self.stats, 'failed'))} failed, {count(self.stats['urls_pending'])} pending"
        return f"<CrawlResult {pages}, {left}, in {self.job.directory}>"

    @property
    def pages(self) -> Records:
        """The records of all pages that the job has fetched, in this run or earlier, whatever their status."""
        return self.job.records("fetched")

    @property
    def failed(self) -> Records:
        """The records of URLs for which no response arrived."""
        return self.job.records("failed")
