"""What is wrong with a job, as values. The command line puts them into words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from crawler.base.kv import Family

Detail = str | int | None


class Kind(StrEnum):
    """What was found. The names are part of ``verify --json``: a name never changes its meaning."""

    # The job as a whole, and its small files.
    UNREADABLE = "unreadable"  # the error that prevents any other check
    LOG_DAMAGED = "log-damaged"
    STORE_NOT_OPENED = "store-not-opened"
    STORE_HOLE = "store-hole"
    RUN_SETTINGS_DAMAGED = "run-settings-damaged"
    COMMAND_DAMAGED = "command-damaged"
    HISTORY_DAMAGED = "history-damaged"
    MARKDOWN_DAMAGED = "markdown-damaged"
    INBOX_UNREADABLE = "inbox-unreadable"
    BATCH_DAMAGED = "batch-damaged"
    GENERATION_DAMAGED = "generation-damaged"
    GENERATION_AHEAD = "generation-ahead"
    SEEN_DAMAGED = "seen-damaged"
    REPAIR_UNFINISHED = "repair-unfinished"
    # Rows of the store that are not valid for their family.
    META_DAMAGED = "meta-damaged"
    EVENT_DAMAGED = "event-damaged"
    EVENT_BEYOND_END = "event-beyond-end"
    ENTRY_DAMAGED = "entry-damaged"
    ENTRY_NUMBER = "entry-number"
    ENTRY_NOT_CANONICAL = "entry-not-canonical"
    ENTRY_MISPLACED = "entry-misplaced"
    HOST_DAMAGED = "host-damaged"
    ROBOTS_DAMAGED = "robots-damaged"
    TRAP_DAMAGED = "trap-damaged"
    COPY_DAMAGED = "copy-damaged"
    SOFT404_DAMAGED = "soft404-damaged"
    DOUBT_DAMAGED = "doubt-damaged"
    LEDGER_COUNTS_DAMAGED = "ledger-counts-damaged"
    PAGE_DAMAGED = "page-damaged"
    DUE_DAMAGED = "due-damaged"
    LEFT_OUT_DAMAGED = "left-out-damaged"
    OUTBOX_DAMAGED = "outbox-damaged"
    INLET_DAMAGED = "inlet-damaged"
    PAYLOAD_DAMAGED = "payload-damaged"
    # Files of records.
    FILE_LOST = "file-lost"
    FILE_CUT = "file-cut"
    FRAME_DAMAGED = "frame-damaged"
    TABLE_LOST = "table-lost"
    # Lines of the output.
    LINE_CUT = "line-cut"
    LINE_NOT_JSON = "line-not-json"
    RECORD_DAMAGED = "record-damaged"
    RECORD_CHANGED = "record-changed"
    OUTPUT_LOST = "output-lost"
    PARTS_LOST = "parts-lost"
    BODIES_LOST = "bodies-lost"
    # Parts that disagree.
    ADMITTED_NOT_SEEN = "admitted-not-seen"
    PENDING_NOT_SEEN = "pending-not-seen"
    FINISHED_NOT_SEEN = "finished-not-seen"
    HASH_DIFFERS = "hash-differs"
    PARTITION_GONE = "partition-gone"
    HOST_ELSEWHERE = "host-elsewhere"
    RECORDS_ELSEWHERE = "records-elsewhere"
    ADMITTED_COUNT = "admitted-count"
    PENDING_COUNT = "pending-count"
    HOST_COUNT = "host-count"
    HOST_QUEUE_COUNT = "host-queue-count"
    HOST_OUTPUT_COUNT = "host-output-count"
    HOST_CURSOR = "host-cursor"
    HOST_MISSING = "host-missing"
    ROBOTS_MISSING = "robots-missing"
    REQUEST_MISSING = "request-missing"
    TRAP_COUNT = "trap-count"
    DOUBT_COUNT = "doubt-count"
    LEDGER_DIGESTS = "ledger-digests"
    SEEN_DIGESTS = "seen-digests"
    SEEN_COUNT = "seen-count"
    REVISIT_COUNT = "revisit-count"
    PAGE_UNSCHEDULED = "page-unscheduled"
    PAGE_NOT_DUE = "page-not-due"
    DUE_UNKNOWN = "due-unknown"
    SCHEDULED_COUNT = "scheduled-count"
    HELD_BACK_COUNT = "held-back-count"
    BORDER_COUNT = "border-count"
    MESSAGES_MISSING = "messages-missing"
    OUTPUT_END = "output-end"
    OUTPUT_COUNT = "output-count"


class Severity(StrEnum):
    """``DAMAGED``: the bytes are not what the program wrote. ``DISAGREES``: all can be read, but two parts contradict
    each other. ``SELF_HEALING``: a power loss leaves this, and the next run removes it; nothing is lost. An
    output whose last file is missing may have been deleted as well."""

    DAMAGED = "damaged"
    DISAGREES = "disagrees"
    SELF_HEALING = "self-healing"


_DISAGREES = frozenset(list(Kind)[list(Kind).index(Kind.ADMITTED_NOT_SEEN) :])


class Finding(Struct, frozen=True):
    """One thing that is wrong. ``place`` is a file or directory of the job. If it is the store, ``family`` and ``key``
    name the row, if it is one row. ``mends``: the next run mends it by itself."""

    kind: Kind
    place: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    family: Family | None = None
    key: bytes | None = None
    mends: bool = False

    @property
    def severity(self) -> Severity:
        if self.mends:
            return Severity.SELF_HEALING
        return Severity.DISAGREES if self.kind in _DISAGREES else Severity.DAMAGED

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "severity": self.severity.value,
            "place": self.place,
            "family": None if self.family is None else self.family.value,
            "key": None if self.key is None else self.key.hex(),
            **self.details,
        }


def is_fault(finding: Finding) -> bool:
    """Return whether the user must do something about it."""
    return finding.severity is not Severity.SELF_HEALING
