"""Writes a job as Parquet files, by pyarrow (the extra ``parquet``): a directory with ``pages.parquet``,
``hosts.parquet`` and ``export.json``, and with ``links.parquet``, ``text.parquet`` and ``structured.parquet`` if the
job keeps them.

Rows are collected into row groups of a size that suits readers; memory use is that of one row group, regardless of the
size of the job.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from crawler.base.faults import UserFault
from crawler.inspect.export.beside import MARK, free_place, made_beside
from crawler.inspect.export.columns import arrow_schema
from crawler.inspect.export.refused import Purposes
from crawler.inspect.export.tables import KEPT, TABLES, Source, grouped
from crawler.job.job_lock import lock_holder

_KIND = "parquet"
_VERSION = 1
_GROUP_ROWS, _GROUP_BYTES = 122_880, 2**26  # DuckDB's row group size, and the maximum bytes in memory


class MissingLibraryError(UserFault):
    """A library is not installed. The text is one line that states how to install it."""


class Written(NamedTuple):
    """The content of an export: rows by table, and its size in bytes. ``without``: by table, how many pages lack their
    links, text or structured data because the files do not exist."""

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
    """Return the absolute path of ``out``, if a job (which may not exist yet) can be written there. Raises
    MissingLibraryError and ExportError."""
    check_library()
    return free_place(out, directory, _KIND, _files())


def write_parquet(directory: Path, out: Path, allowed: Purposes = ()) -> Written:
    """Write the job or crawl in ``directory``, running or not, to the directory ``out``, without URLs that refuse a
    purpose in ``allowed``. Raises MissingLibraryError, ExportError, JobError, OSError, and the errors of reading a
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
