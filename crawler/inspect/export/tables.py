"""The rows of a job's or crawl's tables, also as Arrow record batches, by pyarrow.

Rows are converted into columns a few thousand at a time, so memory use does not grow with the job.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from crawler.inspect.crawl_partitions import Partition, crawl_partitions
from crawler.inspect.export.columns import HOSTS, LINKS, PAGES, STRUCTURED, TEXT, Column, Kind, Row, record_batches
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.export.refused import Purposes, refused
from crawler.inspect.job_view import JobView
from crawler.inspect.record_stream import final_records
from crawler.job.identity import read_identity
from crawler.job.output import Record
from crawler.url.urls.host_key import host_key

TABLES = {"pages": PAGES, "links": LINKS, "text": TEXT, "structured": STRUCTURED, "hosts": HOSTS}
KEPT = ("links", "text", "structured")  # the tables of outputs
_PARTITION = Column("partition", Kind.SMALL)


class Source:
    """The tables of a job, or of all partitions of a crawl in turn, with their records numbered as those of one job.
    ``without``: by table, how many pages lack the part that an output keeps, once the table was read."""

    def __init__(self, directory: Path, allowed: Purposes = ()) -> None:
        """``allowed``: leave out URLs that refuse one of these purposes. Raises JobError and OSError."""
        crawl = crawl_partitions(directory)
        self.of_job, self.jobs, self._partitions = crawl.is_job, crawl.jobs, crawl.found
        if self.of_job:
            read_identity(directory)
        self._refused = functools.cache(lambda: refused(self.jobs, allowed))
        self._counts = dict[int, int]()  # records by partition
        self.without = dict[str, int]()

    def columns(self, table: str) -> tuple[Column, ...]:
        """Return the columns of a table, including the partition if there are several."""
        return TABLES[table] if self.of_job or table in KEPT else (*TABLES[table], _PARTITION)

    def keeps(self, table: str) -> bool:
        """Return True if the job has that table. Raises JobError, OSError and JournalError."""
        return table not in KEPT or any(KeptParts(job, table).in_use for job in self.jobs)

    def rows(self, table: str) -> Iterator[tuple[Row, int]]:
        """Yield the rows of a table, each with its size in bytes as JSON. The first read of the records fixes their
        number, because a running crawl may finish more before the next read. Raises the errors of reading a job."""
        if table == "hosts":
            for partition in self._each():
                yield from ((row | partition.as_json, 0) for row in JobView(partition.directory).hosts())
        elif table == "pages":
            for number, partition, record, size in self._records():
                href = str(record["url"])
                yield record | {"record": number, "host": host_key(href), **partition.as_json}, size
        else:
            yield from self._kept(table)

    def batches(self, table: str) -> Iterator[Any]:
        """Return the rows as record batches."""
        return record_batches(self.columns(table), self.rows(table))

    def _kept(self, table: str) -> Iterator[tuple[Row, int]]:
        with contextlib.ExitStack() as opened:
            kept = {job: opened.enter_context(KeptParts(job, table)) for job in self.jobs}
            for number, partition, record, _ in self._records():
                for line in kept[partition.directory].of(record).splitlines():
                    yield {"record": number, **json.loads(line)}, len(line)
            self.without[table] = sum(parts.missing for parts in kept.values())

    def _records(self) -> Iterator[tuple[int, Partition, Record, int]]:
        """Yield each record with its number, its partition and its length in bytes."""
        numbers, left_out = itertools.count(1), self._refused()
        for partition in self._each():
            count = 0
            for record, size in itertools.islice(
                final_records(partition.directory), self._counts.get(partition.number)
            ):
                count += 1
                number = next(numbers)
                if record["url"] not in left_out:
                    yield number, partition, record, size
            self._counts[partition.number] = count

    def _each(self) -> Iterator[Partition]:
        for partition in self._partitions:
            with partition.named():
                yield partition


def grouped(batches: Iterable[Any], rows: int, size: int) -> Iterator[Any]:
    """Yield Arrow tables of about that many rows or bytes from these record batches."""
    import pyarrow as pa  # noqa: PLC0415, optional

    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if sum(map(len, group)) >= rows or sum(each.nbytes for each in group) >= size:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)
