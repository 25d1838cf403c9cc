"""The rows of a job's tables, or of a crawl's, and the same as record batches of Arrow, by pyarrow.

Rows are turned into columns some thousand at a time, so the memory that it takes does not grow with the job.
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
from crawler.inspect.export.final_records import final_records
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.export.refused import Purposes, refused
from crawler.inspect.job_view import JobView
from crawler.job.identity import read_identity
from crawler.job.output import Record
from crawler.url.urls.host_key import host_key

TABLES = {"pages": PAGES, "links": LINKS, "text": TEXT, "structured": STRUCTURED, "hosts": HOSTS}
KEPT = ("links", "text", "structured")  # the tables of outputs
_PARTITION = Column("partition", Kind.SMALL)


class Source:
    """The tables of a job, or of the partitions of a crawl one after the other, whose records are numbered as if they
    were those of one job. ``without``: how many pages lack what an output keeps, by its table, as soon as that was
    read."""

    def __init__(self, directory: Path, allowed: Purposes = ()) -> None:
        """``allowed``: URLs are left out that refuse one of these purposes. Raises JobError and OSError."""
        crawl = crawl_partitions(directory)
        self.of_job, self.jobs, self._partitions = crawl.is_job, crawl.jobs, crawl.found
        if self.of_job:
            read_identity(directory)
        self._refused = functools.cache(lambda: refused(self.jobs, allowed))
        self._counts = dict[int, int]()  # of the records of a partition
        self.without = dict[str, int]()

    def columns(self, table: str) -> tuple[Column, ...]:
        """The columns of a table, with the partition if there are several."""
        return TABLES[table] if self.of_job or table in KEPT else (*TABLES[table], _PARTITION)

    def keeps(self, table: str) -> bool:
        """Whether the job has such a table. Raises JobError, OSError and JournalError."""
        return table not in KEPT or any(KeptParts(job, table).in_use for job in self.jobs)

    def rows(self, table: str) -> Iterator[tuple[Row, int]]:
        """The rows of a table, each with the bytes it had as JSON. Whoever reads records first decides how many there
        are: a running crawl may have finished more by the next time. Raises what reading a job raises."""
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
        """The same as record batches."""
        return record_batches(self.columns(table), self.rows(table))

    def _kept(self, table: str) -> Iterator[tuple[Row, int]]:
        with contextlib.ExitStack() as opened:
            kept = {job: opened.enter_context(KeptParts(job, table)) for job in self.jobs}
            for number, partition, record, _ in self._records():
                for line in kept[partition.directory].of(record).splitlines():
                    yield {"record": number, **json.loads(line)}, len(line)
            self.without[table] = sum(parts.missing for parts in kept.values())

    def _records(self) -> Iterator[tuple[int, Partition, Record, int]]:
        """Each record with its number, its partition and its length in bytes."""
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
    """Tables of Arrow with about as many rows, or as many bytes, of these record batches."""
    import pyarrow as pa  # noqa: PLC0415, optional

    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if sum(map(len, group)) >= rows or sum(each.nbytes for each in group) >= size:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)
