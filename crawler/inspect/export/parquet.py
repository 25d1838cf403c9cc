"""Writes a job as Parquet files, by pyarrow (the extra ``parquet``): a directory with ``pages.parquet``,
``hosts.parquet``, ``links.parquet``, ``text.parquet`` and ``structured.parquet`` if the job keeps them, and
``export.json``.

Rows are turned into columns some thousand at a time. They are gathered into row groups that readers like, with the
memory that one takes, however long the job is.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from crawler.inspect.crawl_partitions import Partition, crawl_partitions, holds_crawl
from crawler.inspect.export.beside import MARK, free_place, made_beside
from crawler.inspect.export.columns import HOSTS, LINKS, OTHER, PAGES, STRUCTURED, TEXT, Column, Kind, Row, columns_of
from crawler.inspect.export.final_records import final_records
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.job_view import JobView
from crawler.job.job_lock import lock_holder
from crawler.url.urls.host_key import host_key

TABLES = {"pages": PAGES, "links": LINKS, "text": TEXT, "structured": STRUCTURED, "hosts": HOSTS}
_KEPT = ("links", "text", "structured")  # the tables of outputs
_KIND = "parquet"
_VERSION = 1
_ROWS, _BYTES = 2048, 2**22  # what is turned into columns at once; one record may have 200 KB
_GROUP_ROWS, _GROUP_BYTES = 122_880, 2**26  # a row group of DuckDB's size, and what it may take in memory


class MissingLibraryError(Exception):
    """pyarrow is not installed. The text is one line that says how to install it."""


class Written(NamedTuple):
    """What an export holds: rows by table, and its size in bytes. ``without``: how many pages it lacks the links, text
    or structured data of, by table, because their files are not there."""

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
    """The absolute path of ``out``, to which a job, there or not yet, can be written. Raises MissingLibraryError and
    ExportError."""
    check_library()
    return free_place(out, directory, _KIND, _files())


def write_parquet(directory: Path, out: Path) -> Written:
    """Write the job or the crawl in ``directory``, running or not, to the directory ``out``. Raises
    MissingLibraryError, ExportError, JobError, OSError and what reading a damaged job raises; an earlier export is then
    unchanged."""
    source = _Source.of(directory)
    out = check_place(directory, out)
    with made_beside(out) as part:
        began = datetime.now(UTC)
        running = any(lock_holder(job) is not None for job in source.jobs)
        rows, without = {"pages": write_table(part / "pages.parquet", source.columns(PAGES), source.pages())}, {}
        for name in _KEPT:
            with contextlib.ExitStack() as opened:
                kept = [opened.enter_context(KeptParts(job, name)) for job in source.jobs]
                if any(parts.in_use for parts in kept):
                    rows[name] = write_table(part / f"{name}.parquet", TABLES[name], source.kept(kept))
                without[name] = sum(parts.missing for parts in kept)
        rows["hosts"] = write_table(part / "hosts.parquet", source.columns(HOSTS), source.hosts())
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


_PARTITION = Column("partition", Kind.SMALL)


class _Source:
    """The jobs of an export: one, or the partitions of a crawl one after the other. Their records are numbered as if
    they were those of one job."""

    def __init__(self, partitions: Sequence[Partition], *, of_job: bool) -> None:
        self._partitions = partitions
        self._counts = dict[int, int]()  # of the records of a partition
        self.of_job = of_job
        self.jobs = [partition.directory for partition in partitions]

    @classmethod
    def of(cls, directory: Path) -> _Source:
        """Raises JobError."""
        if holds_crawl(directory):
            found = crawl_partitions(directory).found
            return cls(found, of_job=False)
        return cls([Partition(0, directory)], of_job=True)

    def columns(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Those of a table, with the partition if there are several."""
        return columns if self.of_job else (*columns, _PARTITION)

    def pages(self) -> Iterator[tuple[Row, int]]:
        numbers = itertools.count(1)
        for partition, more in self._each():
            count = 0
            for record, size in final_records(partition.directory):
                count += 1
                href = str(record["url"])
                yield record | {"record": next(numbers), "host": host_key(href), **more}, size
            self._counts[partition.number] = count

    def kept(self, kept: Iterable[KeptParts]) -> Iterator[tuple[Row, int]]:
        """What an output keeps of these records: a running crawl may have finished more by now."""
        numbers = itertools.count(1)
        for (partition, _), parts in zip(self._each(), kept, strict=True):
            records = itertools.islice(final_records(partition.directory), self._counts[partition.number])
            for (record, _), number in zip(records, numbers, strict=False):
                for line in parts.of(record).splitlines():
                    yield {"record": number, **json.loads(line)}, len(line)

    def hosts(self) -> Iterator[tuple[Row, int]]:
        for partition, more in self._each():
            yield from ((row | more, 0) for row in JobView(partition.directory).hosts())

    def _each(self) -> Iterator[tuple[Partition, Row]]:
        for partition in self._partitions:
            with contextlib.nullcontext() if self.of_job else partition.named():
                yield partition, {} if self.of_job else {"partition": partition.number}


def write_table(path: Path, columns: tuple[Column, ...], rows: Iterable[tuple[Row, int]]) -> int:
    """Write rows, each with the bytes it had as JSON; returns how many there were. Raises OSError."""
    import pyarrow as pa  # noqa: PLC0415, optional
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema, written = arrow_schema(columns), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        group: list[Any] = []
        for piece in _pieces(rows):
            written += len(piece)
            values = columns_of(columns, piece)
            group.append(
                pa.RecordBatch.from_arrays(
                    [pa.array(values[field.name], field.type) for field in schema], schema=schema
                )
            )
            if sum(map(len, group)) >= _GROUP_ROWS or sum(batch.nbytes for batch in group) >= _GROUP_BYTES:
                _write_group(writer, group, schema)
                group = []
        if group or not written:
            _write_group(writer, group, schema)
    return written


def _write_group(writer: Any, group: list[Any], schema: Any) -> None:
    import pyarrow as pa  # noqa: PLC0415, optional

    table = pa.Table.from_batches(group, schema)
    writer.write_table(table, row_group_size=max(1, len(table)))


def _pieces(rows: Iterable[tuple[Row, int]]) -> Iterator[list[Row]]:
    piece, size = list[Row](), 0
    for row, length in rows:
        piece.append(row)
        size += length
        if len(piece) >= _ROWS or size >= _BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def arrow_schema(columns: Iterable[Column]) -> Any:
    """The schema of a table in Arrow's types."""
    import pyarrow as pa  # noqa: PLC0415, optional

    text = pa.string()
    types = {
        Kind.TEXT: text,
        Kind.TRUTH: pa.bool_(),
        Kind.SMALL: pa.int32(),
        Kind.LARGE: pa.int64(),
        Kind.NUMBER: pa.float64(),
        Kind.TIME: pa.timestamp("ms", "UTC"),
        Kind.TEXTS: pa.list_(text),
        Kind.HEADERS: pa.map_(text, text),
        Kind.COUNTS: pa.map_(text, pa.int64()),
        Kind.PLACES: pa.map_(text, pa.list_(pa.int64())),
        Kind.JSON: text,
    }
    return pa.schema([*((name, types[kind]) for name, kind, _ in columns), (OTHER, text)])
