"""Tables as CSV (RFC 4180), for spreadsheets.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, and texts come from strangers.
Such a text gets an apostrophe in front, as the Open Worldwide Application Security Project recommends ("CSV
Injection"). Numbers are left alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

PAGE_CELLS = (
    "url",
    "status",
    "outcome",
    "error",
    "depth",
    "via",
    "fetched_at",
    "content_type",
    "bytes",
    "links",
    "location",
    "duplicate_of",
    "rule",
    "probe",
    "visit",
    "changed",
    "title",
    "language",
    "canonical",
    "charset",
    "etag",
    "last_modified",
    "address",
    "seconds",
    "tries",
    "price",
    "score",
)
HOST_CELLS = (
    "host",
    "state",
    "pending",
    "in_flight",
    "fetched",
    "failed",
    "share",
    "next_time",
    "wait_seconds",
    "rule",
    "reason",
    "gap_seconds",
    "latency_seconds",
    "errors",
    "no_page",
)
# With those of the width of an ideograph, which spreadsheets take for the same.
_FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")


def csv_lines(names: Iterable[str], rows: Iterable[Mapping[str, Any]], *, heading: bool = False) -> bytes:
    """The lines of the rows, in UTF-8, with these columns; with ``heading``, their names come first."""
    text, columns = io.StringIO(newline=""), tuple(names)
    writer = csv.writer(text)
    if heading:
        writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):  # failures by class
        return _cell("; ".join(f"{key} {count}" for key, count in value.items()))
    return value
