"""The changes that a repair makes, as values. The command line puts them into words."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from crawler.inspect.integrity.finding import Detail


class Done(StrEnum):
    """What was done. The names are part of ``repair --json``: a name never changes its meaning."""

    # The store and the small files.
    LOG_CUT = "log-cut"
    STORE_LOST = "store-lost"
    STORE_SALVAGED = "store-salvaged"
    CRAWL_RESTARTED = "crawl-restarted"
    SETTINGS_REBUILT = "settings-rebuilt"
    RULES_UNKNOWN = "rules-unknown"
    SECRET_RESTORED = "secret-restored"
    SECRET_LOST = "secret-lost"
    RUN_SETTINGS_REMOVED = "run-settings-removed"
    HISTORY_REMOVED = "history-removed"
    SURVEY_REMOVED = "survey-removed"
    INBOX_REMOVED = "inbox-removed"
    PARCEL_REMOVED = "parcel-removed"
    QUARANTINED = "quarantined"
    # Rows that were not valid for their family.
    EVENTS_REMOVED = "events-removed"
    ENTRIES_REMOVED = "entries-removed"
    ROBOTS_REMOVED = "robots-removed"
    TRAPS_REMOVED = "traps-removed"
    COPIES_REMOVED = "copies-removed"
    SOFT404_REMOVED = "soft404-removed"
    MESSAGES_REMOVED = "messages-removed"
    MESSAGES_CLOSED_UP = "messages-closed-up"
    INLET_REMOVED = "inlet-removed"
    HELD_BACK_REMOVED = "held-back-removed"
    BORDER_REMOVED = "border-removed"
    PAYLOADS_FORGOTTEN = "payloads-forgotten"
    DOUBTS_REMOVED = "doubts-removed"
    DOUBTS_MOVED = "doubts-moved"
    LEDGER_COUNTS_LOST = "ledger-counts-lost"
    COUNTERS_LOST = "counters-lost"
    # Parts that disagreed.
    URLS_PENDING_AGAIN = "urls-pending-again"
    URLS_REQUEUED = "urls-requeued"
    DUPLICATES_REMOVED = "duplicates-removed"
    TABLE_WRITTEN = "table-written"
    LINES_REMOVED = "lines-removed"
    OUTPUT_REWRITTEN = "output-rewritten"
    BODIES_MOVED = "bodies-moved"
    ASIDES_REMOVED = "asides-removed"
    URLS_FORGOTTEN = "urls-forgotten"
    JOURNAL_COMPLETED = "journal-completed"
    HOSTS_CORRECTED = "hosts-corrected"
    HOSTS_REBUILT = "hosts-rebuilt"
    SCHEDULE_REBUILT = "schedule-rebuilt"
    COUNTERS_CORRECTED = "counters-corrected"
    # The seen-set.
    GENERATION_REMOVED = "generation-removed"
    SEEN_DAMAGED = "seen-damaged"
    SEEN_REBUILT = "seen-rebuilt"


class Change(Struct, frozen=True):
    """One thing that a repair has done."""

    done: Done
    details: dict[str, Detail]

    def as_json(self) -> dict[str, Any]:
        return {"done": self.done.value, **self.details}


Tell = Callable[[Change], None]
