"""Gives other programs the statistics, records and hosts of a job or of a crawl in partitions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.crawl_reader import all_hosts_of, stats_of
from crawler.inspect.crawl_tail import tail_of
from crawler.job.identity import read_identity


class JobView:
    """The job or crawl in partitions in a directory, running or not. Nothing in the directory is changed."""

    def __init__(self, directory: str | Path) -> None:
        """Raises JobError if there is no job."""
        self.directory = Path(directory)
        if crawl_partitions(self.directory).is_job:
            read_identity(self.directory)

    def stats(self) -> dict[str, Any]:
        """Return the dictionary printed by ``crawler stats --json``. Raises OSError, and JobError for a damaged job."""
        return stats_of(self.directory)

    def records(self, *outcomes: str) -> Iterator[dict[str, Any]]:
        """Yield the records of finished URLs as in ``pages.jsonl``, in the order in which they finished; those of
        several partitions are merged by time.

        With ``outcomes``, yields only the records with one of these outcomes. A record is yielded only once no crash
        can undo it. Raises OSError, JobError."""
        wanted: Collection[str] = outcomes
        for line in tail_of(self.directory, wanted).more():
            record: dict[str, Any] = json.loads(line)
            yield record

    def changes(self, since: str = "0") -> Iterator[dict[str, Any]]:
        """Yield the records after a cursor ("0": all), each with its ``change`` and the ``cursor`` after it, as
        printed by ``crawler tail --since``.

        Yields nothing while a crawl that has just started does not know yet which records are final. Raises
        ValueError for a cursor that does not belong to the job, OSError, JobError."""
        tail = tail_of(self.directory)
        if tail.resume(since):
            for line in tail.changes():
                record: dict[str, Any] = json.loads(line)
                yield record

    def hosts(self) -> Iterator[dict[str, Any]]:
        """Return a row for each host, by name, with the columns of ``crawler hosts --json``; partitions follow one
        another, and their rows have the number as ``partition``. Raises OSError, JobError."""
        return all_hosts_of(self.directory)
