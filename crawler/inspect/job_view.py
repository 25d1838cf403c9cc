"""Gives other programs the statistics, records and hosts of a job."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from crawler.inspect.host_table import HostTableSettings, all_host_rows
from crawler.inspect.hosts_now import hosts_now
from crawler.inspect.job_reader import job_stats, open_job
from crawler.inspect.record_stream import Tail
from crawler.job.clock_anchor import job_time
from crawler.job.identity import check_readable
from crawler.job.live_status import read_live


class JobView:
    """The job in a directory, running or not. Nothing in it is changed."""

    def __init__(self, directory: str | Path) -> None:
        """Raises JobError if there is no job."""
        self.directory = Path(directory)
        check_readable(self.directory)

    def stats(self) -> dict[str, Any]:
        """Return what ``crawler stats --json`` prints. Raises OSError, and JobError for a damaged job."""
        return job_stats(self.directory)

    def records(self, *outcomes: str) -> Iterator[dict[str, Any]]:
        """Yield the records of finished URLs as in ``pages.jsonl``, in the order in which they finished.

        With ``outcomes``, yields only the records with one of these outcomes. A record is shown only once no crash can
        undo it. Raises OSError, JobError."""
        wanted: Collection[str] = outcomes
        for line in Tail(self.directory, wanted).more():
            record: dict[str, Any] = json.loads(line)
            yield record

    def changes(self, since: str = "0") -> Iterator[dict[str, Any]]:
        """Yield the records after a cursor ("0": all), each with its ``change`` and the ``cursor`` after it, as
        ``crawler tail --since`` prints them.

        Yields nothing while a crawl that has just begun does not know yet which records no crash can undo. Raises
        ValueError for a cursor that does not belong to the job, OSError, JobError."""
        tail = Tail(self.directory)
        if tail.resume(since):
            for line in tail.changes():
                record: dict[str, Any] = json.loads(line)
                yield record

    def hosts(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each host, by name, with the columns of ``crawler hosts --json``. Raises OSError,
        JobError."""
        live = read_live(self.directory)
        with open_job(self.directory) as job:
            now = job_time(job.store)
            beside = hosts_now(live, job.store, job.settings, now)
            for row in all_host_rows(job.store, HostTableSettings.of(job.settings), now, beside):
                if row is not None:
                    yield dict(row)
