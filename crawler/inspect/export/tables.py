"""Reads the rows of a job's or crawl's tables, and converts them to Arrow record batches with pyarrow. A few thousand
rows are converted at a time, so memory use does not grow with the job.

An export as Parquet files (the extra ``parquet``) is a directory with ``pages.parquet``, ``hosts.parquet`` and
``export.json``, and with ``links.parquet``, ``text.parquet`` and ``structured.parquet`` if the job keeps them.

Rows are collected into row groups of a size that suits readers; memory holds one row group at a time, regardless of the
size of the job.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from crawler.base.faults import UserFault
from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.crawl_partitions import Partition, crawl_partitions
from crawler.inspect.export.beside import MARK, free_place, made_beside
from crawler.inspect.export.columns import (
    HOSTS,
    LINKS,
    PAGES,
    STRUCTURED,
    TEXT,
    Column,
    Kind,
    Row,
    arrow_schema,
    record_batches,
)
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.job_view import JobView
from crawler.inspect.record_stream import Purposes, final_records, refused
from crawler.job.identity import read_identity
from crawler.job.job_lock import lock_holder
from crawler.job.output import Record
from crawler.url.urls.host_key import host_key

TABLES = {"pages": PAGES, "links": LINKS, "text": TEXT, "structured": STRUCTURED, "hosts": HOSTS}
KEPT = tuple(table for table in TABLES if table in OUTPUTS)  # the tables that are made from outputs
_PARTITION = Column("partition", Kind.SMALL)


class Source:
    """The tables of a job, or of a crawl: the rows of its partitions in turn, with all records numbered as in a single
    job. For each output whose table has been read, ``without`` counts the pages that have no part in that output."""

    def __init__(self, directory: Path, allowed: Purposes = ()) -> None:
        """URLs that refuse a purpose in ``allowed`` are left out. Raises JobError and OSError."""
        crawl = crawl_partitions(directory)
        self.of_job, self.jobs, self._partitions = crawl.is_job, crawl.jobs, crawl.found
        if self.of_job:
            read_identity(directory)
        self._refused = functools.cache(lambda: refused(self.jobs, allowed))
        self._counts = dict[int, int]()  # number of records by partition
        self.without = dict[str, int]()

    def columns(self, table: str) -> tuple[Column, ...]:
        """Return the columns of a table, including the partition if there are several."""
        return TABLES[table] if self.of_job or table in KEPT else (*TABLES[table], _PARTITION)

    def keeps(self, table: str) -> bool:
        """Return True if the job has that table. Raises JobError, OSError and JournalError."""
        return table not in KEPT or any(KeptParts(job, table).in_use for job in self.jobs)

    def rows(self, table: str) -> Iterator[tuple[Row, int]]:
        """Yield the rows of a table, each with its size in bytes as JSON. All reads yield as many records as the first
        one, because a running crawl may finish more in between. Raises the errors of reading a job."""
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
        """Return the rows of a table as Arrow record batches."""
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
    """Combine record batches into Arrow tables of about that many rows or bytes."""
    import pyarrow as pa  # noqa: PLC0415, optional

    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if sum(map(len, group)) >= rows or sum(each.nbytes for each in group) >= size:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)


_KIND = "parquet"
_VERSION = 1
_GROUP_ROWS, _GROUP_BYTES = 122_880, 2**26  # DuckDB's row group size, and the maximum bytes in memory


class MissingLibraryError(UserFault):
    """A library is not installed. The message is one line that states how to install it."""


class Written(NamedTuple):
    """The number of rows in each table of an export, and the export's size in bytes. ``without`` has, by table, the
    number of pages whose links, text or structured data are missing."""

    rows: dict[str, int]
    size: int
    without: dict[str, int]


def check_library() -> None:
    """Raise MissingLibraryError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415, optional
    except ImportError as error:
        raise MissingLibraryError("an export to Parquet needs pyarrow: pip install pyarrow") from error


def check_place(directory: Path, out: Path) -> Path:
    """Return the absolute path of ``out``. Raises MissingLibraryError, and ExportError if a job (which may not exist
    yet) cannot be exported to ``out``."""
    check_library()
    return free_place(out, directory, _KIND, _files())


def write_parquet(directory: Path, out: Path, allowed: Purposes = ()) -> Written:
    """Write the job or crawl in ``directory``, running or not, to the directory ``out``. URLs that refuse a purpose in
    ``allowed`` are left out. Raises MissingLibraryError, ExportError, JobError, OSError, and the errors of reading a
    damaged job; an earlier export is then unchanged."""
    source = Source(directory, allowed)
    out = check_place(directory, out)
    with made_beside(out) as part:
        began = datetime.now(UTC)
        running = any(lock_holder(job) is not None for job in source.jobs)
        names = ("pages", *filter(source.keeps, KEPT), "hosts")
        rows = {name: _write_table(part / f"{name}.parquet", source, name) for name in names}
        without = {name: source.without.get(name, 0) for name in KEPT}
        mark = {
            "export": _KIND,
            "version": _VERSION,
            "job": directory.absolute().name,
            "made_at": began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "running": running,
            "rows": rows,
            **{f"pages_without_{name}": number for name, number in without.items()},
            **({} if source.of_job else {"partitions": len(source.jobs)}),
        }
        (part / MARK).write_text(json.dumps(mark, indent=2) + "\n", "ascii")
        size = sum(path.stat().st_size for path in part.iterdir())
    return Written(rows, size, without)


def _files() -> list[str]:
    return [f"{name}.parquet" for name in TABLES]


def _write_table(path: Path, source: Source, table: str) -> int:
    """Write a table, and return its number of rows. Raises OSError, and the errors of reading a job."""
    import pyarrow.parquet as pq  # noqa: PLC0415, optional

    schema, written = arrow_schema(source.columns(table)), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in grouped(source.batches(table), _GROUP_ROWS, _GROUP_BYTES):
            written += len(group)
            writer.write_table(group, row_group_size=len(group))
        if not written:
            writer.write_table(schema.empty_table(), row_group_size=1)
    return written
