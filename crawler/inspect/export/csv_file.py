"""The records of a job as one table in CSV. It needs no library, and has the columns of an export to Parquet."""

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

_ROWS = 1000  # of a piece


def csv_pieces(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The names of the columns, and then the rows, some at a time."""
    left = iter(rows)
    yield csv_lines(names, (), heading=True)
    while piece := list(itertools.islice(left, _ROWS)):
        yield csv_lines(names, piece)


def record_pieces(source: Source) -> Iterator[bytes]:
    """The table of the records, some at a time. Raises what reading a job raises."""
    columns = source.columns("pages")
    rows = (_flat(columns, row) for row, _ in source.rows("pages"))
    return csv_pieces([*(column.name for column in columns), OTHER], rows)


def write_records(directory: Path, out: Path, allowed: Purposes = ()) -> int:
    """Write that table to the file ``out``; returns its size in bytes. Raises ExportError, JobError, OSError and what
    reading a damaged job raises; an earlier export is then unchanged."""
    source, begins = Source(directory, allowed), ",".join(column.name for column in PAGES[:3]).encode("ascii")
    out = free_file(out, directory, lambda earlier: earlier.read(len(begins)) == begins)
    with file_made_beside(out) as part, open(part / out.name, "wb") as stream:
        stream.writelines(record_pieces(source))
        return stream.tell()


def _flat(columns: Iterable[Column], row: Row) -> Row:
    """The row as cells: what is not a text, a number or a truth value becomes JSON, and so do in ``other`` the fields
    that have no column. Takes the fields out of the row."""
    cells = {name: _cell(row.pop(name, absent), kind) for name, kind, absent in columns}
    return cells | {OTHER: _cell(row or None, Kind.JSON)}


def _cell(value: Any, kind: Kind) -> Any:
    if value is None or (kind != Kind.JSON and not isinstance(value, list | dict)):
        return value
    return json.dumps(value, separators=(",", ":"))
