"""Gives other programs the statistics, records and hosts of a job or of a crawl in partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from crawler.base.faults import UserFault
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.crawl_reader import all_hosts_of, stats_of
from crawler.inspect.export.columns import PAGES, arrow_schema, record_batches
from crawler.inspect.record_stream import tail_of
from crawler.job.identity import read_identity
from crawler.job.metrics.sentences import urls_of
from crawler.job.records import Outcome
from crawler.url.urls.host_key import host_key

_COLUMNS = tuple(column for column in PAGES if column.name != "record")


class Records(Iterable[dict[str, Any]]):
    """The records of a job. Each loop starts at the first record."""

    def __init__(self, directory: Path, outcomes: tuple[str, ...]) -> None:
        self._directory = directory
        self._outcomes = outcomes

    def __repr__(self) -> str:
        return f"<Records of {self._directory}{': ' * bool(self._outcomes)}{', '.join(self._outcomes)}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, self._lines())

    def to_arrow(self) -> Any:
        """Read the records into a ``pyarrow.Table`` with the columns of ``pages.parquet`` except ``record``. Raises
        ImportError if pyarrow is not installed."""
        arrow = _needed("pyarrow")
        rows = (
            (record | {"host": host_key(record["url"])}, len(line))
            for line in self._lines()
            for record in [json.loads(line)]
        )
        return arrow.Table.from_batches(record_batches(_COLUMNS, rows), arrow_schema(_COLUMNS))

    def to_pandas(self) -> Any:
        """Like ``to_arrow``, but returns a ``pandas.DataFrame``.

        Raises ImportError if pandas or pyarrow is not installed."""
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def _lines(self) -> Iterator[bytes]:
        return tail_of(self._directory, self._outcomes).more()


def _needed(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise ImportError(f"this table needs {library}: pip install {library}") from error


class JobView:
    """The job or crawl in partitions in a directory, running or not. Nothing in the directory is changed."""

    def __init__(self, directory: str | Path) -> None:
        """Raises JobError if there is no job."""
        self.directory = Path(directory)
        if crawl_partitions(self.directory).is_job:
            read_identity(self.directory)

    def __repr__(self) -> str:
        try:
            stats = self.stats()
        except (OSError, UserFault) as error:
            return f"<Job {self.directory}: {error}>"
        numbers = (
            f"{urls_of(stats, 'fetched')} fetched, {urls_of(stats, 'failed')} failed, {stats['urls_pending']} pending"
        )
        return f"<Job {self.directory}: {numbers}>"

    def stats(self) -> dict[str, Any]:
        """Return the dictionary printed by ``crawler stats --json``. Raises OSError, and JobError for a damaged job."""
        return stats_of(self.directory)

    def records(self, *outcomes: str) -> Records:
        """Return an iterable of the records of finished URLs, as in ``pages.jsonl``, in the order in which the URLs
        finished; the records of several partitions are merged by time. If ``outcomes`` are given, only records with one
        of them are returned; an unknown outcome raises ValueError. A record is returned only once no crash can undo it.
        Reading raises OSError, JobError."""
        return Records(self.directory, tuple(map(Outcome, outcomes)))

    def changes(self, since: str = "0") -> Iterator[dict[str, Any]]:
        """Yield the records after a cursor ("0": all), each with its ``change`` and the ``cursor`` after it, as
        printed by ``crawler tail --since``.

        Yields nothing while it is not yet known which records are final, because the crawl has just started. Raises
        OSError, JobError, and ValueError for a cursor that does not belong to the job."""
        tail = tail_of(self.directory)
        if tail.resume(since):
            for line in tail.changes():
                record: dict[str, Any] = json.loads(line)
                yield record

    def hosts(self) -> Iterator[dict[str, Any]]:
        """Return a row for each host, in order of name, with the columns of ``crawler hosts --json``; the rows of a
        crawl in partitions are grouped by ``partition``, the partition's number. Raises OSError, JobError."""
        return all_hosts_of(self.directory)
