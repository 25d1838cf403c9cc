"""Tables as CSV (RFC 4180), for spreadsheets.

Spreadsheets interpret a cell that starts with ``=``, ``+``, ``-`` or ``@`` as a formula, and texts come from untrusted
pages. Such texts get a leading apostrophe, as the Open Worldwide Application Security Project recommends ("CSV
Injection"). Numbers are not changed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from crawler.inspect.export.columns import HOSTS, PAGES, Kind

_NESTED = (Kind.TEXTS, Kind.HEADERS, Kind.PLACES, Kind.JSON)  # nested values, not cells
PAGE_CELLS = tuple(each.name for each in PAGES if each.kind not in _NESTED and each.name not in ("record", "host"))
HOST_CELLS = tuple(each.name for each in HOSTS)
# Including the fullwidth forms, which spreadsheets treat the same.
_FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")


def csv_lines(names: Iterable[str], rows: Iterable[Mapping[str, Any]], *, heading: bool = False) -> bytes:
    """Return the lines of the rows, in UTF-8, with these columns; with ``heading``, the column names come first."""
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
