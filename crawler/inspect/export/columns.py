"""The tables of an export: their columns, and how rows of JSON become columns of typed values.

Nothing is lost: fields without a column, and values that do not fit their column, are kept in the row's column
``other``, as one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import msgspec
import msgspec.json
from msgspec import Meta

from crawler.job.survey.record_kinds import time_of

OTHER = "other"
_ROWS, _BYTES = 2048, 2**22  # maximum numbers of rows and bytes converted at a time; one record may have 200 KB

Row = dict[str, Any]


class Kind(StrEnum):
    """The type of a column, by its DuckDB name."""

    TEXT = "VARCHAR"
    TRUTH = "BOOLEAN"
    SMALL = "INTEGER"
    LARGE = "BIGINT"
    NUMBER = "DOUBLE"
    TIME = "TIMESTAMP WITH TIME ZONE"
    TEXTS = "VARCHAR[]"
    HEADERS = "MAP(VARCHAR, VARCHAR)"
    COUNTS = "MAP(VARCHAR, BIGINT)"
    PLACES = "MAP(VARCHAR, BIGINT[])"
    JSON = "VARCHAR (JSON)"  # any value, as JSON text


class Column(NamedTuple):
    """A column. A row without the field gets the value ``absent``."""

    name: str
    kind: Kind
    absent: Any = None


PAGES = (
    Column("record", Kind.LARGE),
    Column("url", Kind.TEXT),
    Column("host", Kind.TEXT),
    Column("status", Kind.SMALL),
    Column("error", Kind.TEXT),
    Column("outcome", Kind.TEXT),
    Column("depth", Kind.LARGE),
    Column("via", Kind.TEXT),
    Column("fetched_at", Kind.TIME),
    Column("content_type", Kind.TEXT),
    Column("bytes", Kind.LARGE),
    Column("links", Kind.LARGE),
    Column("location", Kind.TEXT),
    Column("links_cut", Kind.TRUTH, False),
    Column("truncated", Kind.TEXT),
    Column("digest", Kind.TEXT),
    Column("simhash", Kind.TEXT),
    Column("duplicate_of", Kind.TEXT),
    Column("robots", Kind.TEXTS),
    Column("consent", Kind.HEADERS),
    Column("consent_by", Kind.HEADERS),
    Column("license", Kind.TEXT),
    Column("needs_scripts", Kind.TEXTS),
    Column("rule", Kind.TEXT),
    Column("probe", Kind.TRUTH, False),
    Column("hops_outside", Kind.SMALL),
    Column("embedded", Kind.TRUTH, False),
    Column("visit", Kind.LARGE, 1),
    Column("changed", Kind.TRUTH),
    Column("gone", Kind.TRUTH, False),
    Column("title", Kind.TEXT),
    Column("language", Kind.TEXT),
    Column("detected_language", Kind.TEXT),
    Column("canonical", Kind.TEXT),
    Column("charset", Kind.TEXT),
    Column("payload_digest", Kind.TEXT),
    Column("etag", Kind.TEXT),
    Column("last_modified", Kind.TEXT),
    Column("address", Kind.TEXT),
    Column("seconds", Kind.NUMBER),
    Column("tries", Kind.LARGE),
    Column("headers", Kind.HEADERS),
    Column("price", Kind.TEXT),
    Column("rendered", Kind.TEXT),
    Column("engine", Kind.TEXT),
    Column("engine_ms", Kind.LARGE),
    Column("rendered_for", Kind.TEXT),
    Column("body", Kind.TEXT),
    Column("body_cut", Kind.TEXT),
    Column("score", Kind.NUMBER),
    Column("id", Kind.TEXT),
    Column("data", Kind.JSON),
    Column("kept", Kind.PLACES),
)
HOSTS = (
    Column("host", Kind.TEXT),
    Column("state", Kind.TEXT),
    Column("pending", Kind.LARGE),
    Column("in_flight", Kind.LARGE),
    Column("fetched", Kind.LARGE),
    Column("failed", Kind.LARGE),
    Column("next_time", Kind.TIME),
    Column("wait_seconds", Kind.NUMBER),
    Column("rule", Kind.TEXT),
    Column("reason", Kind.TEXT),
    Column("gap_seconds", Kind.NUMBER),
    Column("latency_seconds", Kind.NUMBER),
    Column("errors", Kind.COUNTS),
    Column("grows", Kind.TRUTH),
    Column("no_page", Kind.TEXT),
    Column("needs_scripts", Kind.LARGE),
    Column("share", Kind.NUMBER),
)
LINKS = (
    Column("record", Kind.LARGE),
    Column("from", Kind.TEXT),
    Column("to", Kind.TEXT),
    Column("kind", Kind.TEXT),
    Column("text", Kind.TEXT),
    Column("rel", Kind.TEXT),
    Column("in_scope", Kind.TRUTH),
    Column("why", Kind.TEXT),
    Column("score", Kind.NUMBER),
)
TEXT = (
    Column("record", Kind.LARGE),
    Column("url", Kind.TEXT),
    Column("fetched_at", Kind.TIME),
    Column("title", Kind.TEXT),
    Column("language", Kind.TEXT),
    Column("detected_language", Kind.TEXT),
    Column("text", Kind.TEXT),
    Column("markdown", Kind.TEXT),
    Column("cut", Kind.TRUTH, False),
    Column("extractor", Kind.TEXT),
    Column("digest", Kind.TEXT),
    Column("error", Kind.TEXT),
    Column("gone", Kind.TRUTH, False),
)
_OBJECTS = ("opengraph", "twitter", "hreflang", "json_ld", "json_ld_errors", "microdata", "rdfa")
STRUCTURED = (
    *TEXT[:3],
    Column("canonical", Kind.TEXT),
    Column("author", Kind.TEXTS),
    Column("published", Kind.TEXT),
    Column("modified", Kind.TEXT),
    *(Column(name, Kind.JSON) for name in _OBJECTS),
    Column("cut", Kind.TRUTH, False),
    *TEXT[-2:],
)


_SMALL = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_LARGE = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[Kind, Any] = {
    Kind.TEXT: list[str | None],
    Kind.TRUTH: list[bool | None],
    Kind.SMALL: list[_SMALL | None],
    Kind.LARGE: list[_LARGE | None],
    Kind.NUMBER: list[Annotated[int, Meta(ge=-(2**53), le=2**53)] | float | None],
    Kind.TEXTS: list[list[str] | None],
    Kind.HEADERS: list[dict[str, str] | None],
    Kind.COUNTS: list[dict[str, _LARGE] | None],
    Kind.PLACES: list[dict[str, list[_LARGE]] | None],
}


def columns_of(columns: Iterable[Column], rows: list[Row]) -> dict[str, list[Any]]:
    """Return, for each column and for ``other``, the values of all rows in order. Removes the columns' fields from
    ``rows``."""
    misfits: dict[int, Row] = {}
    found: dict[str, list[Any]] = {}
    for name, kind, absent in columns:
        values = [row.pop(name, absent) for row in rows]
        try:
            found[name] = _stored(kind, values)
        except ValueError:
            found[name] = [None] * len(rows)
            for place, value in enumerate(values):
                try:
                    found[name][place : place + 1] = _stored(kind, [value])
                except ValueError:
                    misfits.setdefault(place, {})[name] = value
    left = (row | misfits.get(place, {}) for place, row in enumerate(rows))
    found[OTHER] = [json.dumps(row, separators=(",", ":")) if row else None for row in left]
    return found


def _stored(kind: Kind, values: list[Any]) -> list[Any]:
    """Return a column's values in the form in which they are stored. Raises ValueError if a value does not fit."""
    if kind is Kind.JSON:
        return [None if value is None else json.dumps(value, separators=(",", ":")) for value in values]
    if kind is Kind.TIME:
        times = [time_of(value) for value in values]
        if any(value is not None and time is None for value, time in zip(values, times, strict=True)):
            raise ValueError("not a time")
        return times
    found = msgspec.convert(values, _TYPES[kind])
    msgspec.json.encode(found)  # raises ValueError for text that UTF-8 cannot encode
    return [list(each.items()) if isinstance(each, dict) else each for each in found]


def record_batches(columns: Sequence[Column], rows: Iterable[tuple[Row, int]]) -> Iterator[Any]:
    """Yield the rows as Arrow record batches. ``rows`` has each row with its size in bytes as JSON."""
    import pyarrow as pa  # noqa: PLC0415, optional

    schema = arrow_schema(columns)
    for piece in _pieces(rows):
        values = columns_of(columns, piece)
        arrays = [pa.array(values[field.name], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


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
    """Return the Arrow schema of a table with these columns."""
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
