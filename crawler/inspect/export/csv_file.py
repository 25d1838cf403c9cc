"""Tables as CSV (RFC 4180), for spreadsheets, and the records of a job as one table with the columns of the Parquet
export.

Spreadsheets interpret a cell that starts with ``=``, ``+``, ``-`` or ``@`` as a formula, and text from untrusted pages
may start with one of them. Such text gets a leading apostrophe, as the Open Worldwide Application Security Project
recommends ("CSV Injection"). Numbers are not changed.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler.inspect.export.beside import file_made_beside, free_file
from crawler.inspect.export.columns import HOSTS, OTHER, PAGES, Column, Kind, Row
from crawler.inspect.export.tables import Source
from crawler.inspect.record_stream import Purposes

_ROWS = 1000  # rows converted to CSV at a time
_NESTED = (Kind.TEXTS, Kind.HEADERS, Kind.PLACES, Kind.JSON)  # kinds of nested values, which do not fit into a cell
PAGE_CELLS = tuple(each.name for each in PAGES if each.kind not in _NESTED and each.name not in ("record", "host"))
HOST_CELLS = tuple(each.name for each in HOSTS)
# Includes the fullwidth forms, which spreadsheets treat the same way.
_FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")


def csv_lines(names: Iterable[str], rows: Iterable[Mapping[str, Any]], *, heading: bool = False) -> bytes:
    """Return the rows as CSV lines in UTF-8, with the columns ``names``; with ``heading``, the column names come
    first."""
    text, columns = io.StringIO(newline=""), tuple(names)
    writer = csv.writer(text)
    if heading:
        writer.writerow(columns)
    writer.writerows([_safe(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):  # the numbers of failures by class
        return _safe("; ".join(f"{key} {count}" for key, count in value.items()))
    return value


def csv_pieces(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the line of column names, then the lines of the rows, several at a time."""
    left = iter(rows)
    yield csv_lines(names, (), heading=True)
    while piece := list(itertools.islice(left, _ROWS)):
        yield csv_lines(names, piece)


def record_pieces(source: Source) -> Iterator[bytes]:
    """Yield the table of records, several lines at a time. Raises the errors of reading a job."""
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
    """Return the row as cells. Lists and objects become JSON; the fields without a column become one JSON object in
    ``other``. Removes the fields from the row."""
    cells = {name: _cell(row.pop(name, absent), kind) for name, kind, absent in columns}
    return cells | {OTHER: _cell(row or None, Kind.JSON)}


def _cell(value: Any, kind: Kind) -> Any:
    if value is None or (kind != Kind.JSON and not isinstance(value, list | dict)):
        return value
    return json.dumps(value, separators=(",", ":"))
