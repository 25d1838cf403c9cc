"""The changes that a repair makes, as values. The command line puts them into words."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from crawler.inspect.integrity.finding import Detail


class Done(StrEnum):
    """What was done. The names are part of ``repair --json``: a name never changes its meaning."""

    LOG_DAMAGED = "log-damaged"
    STORE_REPAIRED = "store-repaired"
    STORE_LOST = "store-lost"
    CRAWL_RESTARTED = "crawl-restarted"
    SETTINGS_REBUILT = "settings-rebuilt"
    SECRET_RESTORED = "secret-restored"
    SECRET_LOST = "secret-lost"
    FILE_REMOVED = "file-removed"
    BATCH_REMOVED = "batch-removed"
    ROWS_REMOVED = "rows-removed"
    COUNTERS_LOST = "counters-lost"
    LEDGER_COUNTS_LOST = "ledger-counts-lost"
    URLS_PENDING_AGAIN = "urls-pending-again"
    URLS_FORGOTTEN = "urls-forgotten"
    LINES_REMOVED = "lines-removed"
    OUTPUT_REWRITTEN = "output-rewritten"
    BODIES_MOVED = "bodies-moved"
    ASIDES_REMOVED = "asides-removed"
    REBUILT = "rebuilt"
    QUARANTINED = "quarantined"


class Change(Struct, frozen=True):
    """One thing that a repair has done."""

    done: Done
    details: dict[str, Detail]

    def as_json(self) -> dict[str, Any]:
        return {"done": self.done.value, **self.details}


Tell = Callable[[Change], None]
