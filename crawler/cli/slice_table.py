"""The slices of a filter, in a file or a set on a server, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crawler.base.figures import probability
from crawler.service.progress.text_table import text_table

_Slice = Mapping[str, Any]
_COLUMNS: Mapping[str, Callable[[_Slice], str]] = {
    "shards": lambda part: str(part["shards"]),
    "capacity": lambda part: f"{part['capacity']:,}",
    "keys": lambda part: f"{part['count']:,}",
    "bytes": lambda part: f"{part['bits'] // 8:,}",
    "hashes": lambda part: str(part["hashes"]),
    "fill": lambda part: f"{part['fill']:.3f}",
    "fpp": lambda part: probability(part["fpp_estimated"]),
    "fpp full": lambda part: probability(part["fpp_design"]),
}


def slice_table(slices: Sequence[_Slice]) -> list[str]:
    """Return the lines of the table. ``slices`` is as in the statistics; for a set on a server, it includes the number
    of shards of each slice."""
    columns = {head: text for head, text in _COLUMNS.items() if head != "shards" or (slices and "shards" in slices[0])}
    rows = [(str(number), *(text(part) for text in columns.values())) for number, part in enumerate(slices)]
    return text_table(("slice", *columns), rows)
