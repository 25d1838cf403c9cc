"""Parses the lines of ``pages.jsonl`` into records, and converts records to entries that requeue their URLs."""

from __future__ import annotations

import json
from typing import Any

from crawler.frontier.entry import Entry
from crawler.frontier.order import Order, default_class
from crawler.job.records import JournalError, Outcome

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)

Record = dict[str, Any]


def record_of(line: bytes) -> Record | None:
    """Parse a line with its line feed; None if it is not a record."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(str(line, "utf-8"))  # given bytes, `json` would guess the encoding: UTF-32 for zeros
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("url"), str):
        return None
    return record if record.get("outcome") in _OUTCOMES else None


def decoded(offset: int, line: bytes, name: str) -> Record:
    """Return the record in the line at that offset of the file. Raises JournalError."""
    record = record_of(line)
    if record is None:
        raise JournalError(f"{name}: offset {offset}: not a record; run `crawler verify`")
    return record


def visits_of(record: Record) -> int:
    """Return the number of visits that the URL has had, up to and including the one in this record."""
    visit = record.get("visit", 1)
    return visit if isinstance(visit, int) and 0 < visit < 2**32 else 1


def entry_of(record: Record, order: Order) -> Entry:
    """Return an entry that requeues the URL of a record."""
    depth, via = record.get("depth"), record.get("via")
    hops = depth if isinstance(depth, int) and 0 <= depth < 2**32 else 0
    seed = hops == 0
    priority = default_class(order, hops, seed=seed)
    return Entry(str(record["url"]), hops, via if isinstance(via, str) else None, seed=seed, priority=priority)
