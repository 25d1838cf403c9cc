"""The records of a job as one CSV table. It needs no library, and has the columns of the Parquet export."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler.inspect.export.beside import file_made_beside, free_file
from crawler.inspect.export.cells import csv_lines
from crawler.inspect.export.columns import OTHER, PAGES, Column, Kind, Row
from crawler.inspect.export.refused import Purposes
from crawler.inspect.export.tables import Source

_ROWS = 1000  # rows per piece


def csv_pieces(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the column names, then the rows in pieces."""
    left = iter(rows)
    yield csv_lines(names, (), heading=True)
    while piece := list(itertools.islice(left, _ROWS)):
        yield csv_lines(names, piece)


def record_pieces(source: Source) -> Iterator[bytes]:
    """Yield the table of records in pieces. Raises the errors of reading a job."""
    columns = source.columns("pages")
    rows = (_flat(columns, row) for row, _ in source.rows("pages"))
    return csv_pieces([*(column.name for column in columns), OTHER], rows)


def write_records(directory: Path, out: Path, allowed: Purposes = ()) -> int:
    """Write the table of records to the file ``out``, and return its size in bytes. Raises ExportError, JobError,
    OSError, and the errors of reading a damaged job; an earlier export is then unchanged."""
    source, begins = Source(directory, allowed), ",".join(column.name for column in PAGES[:3]).encode("ascii")
    out = free_file(out, directory, lambda earlier: earlier.read(len(begins)) == begins)
    with file_made_beside(out) as part, open(part / out.name, "wb") as stream:
        stream.writelines(record_pieces(source))
        return stream.tell()


def _flat(columns: Iterable[Column], row: Row) -> Row:
    """Return the row as cells: values other than texts, numbers and booleans become JSON, and so do, in ``other``, the
    fields without a column. Removes the fields from the row."""
    cells = {name: _cell(row.pop(name, absent), kind) for name, kind, absent in columns}
    return cells | {OTHER: _cell(row or None, Kind.JSON)}


def _cell(value: Any, kind: Kind) -> Any:
    if value is None or (kind != Kind.JSON and not isinstance(value, list | dict)):
        return value
    return json.dumps(value, separators=(",", ":"))
