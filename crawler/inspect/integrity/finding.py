"""The problems found in a job, and the changes made by a repair, as values with sentences for users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from crawler.base.figures import Worded
from crawler.base.kv import Family

Detail = str | int | None


class Kind(Worded):
    """The kind of a problem. The names are part of ``verify --json``: a name never changes its meaning."""

    # The job as a whole and its small files.
    UNREADABLE = "unreadable"  # the error that prevents any other check
    FILE_DAMAGED = "file-damaged"
    LOG_DAMAGED = "log-damaged"
    STORE_NOT_OPENED = "store-not-opened"
    STORE_HOLE = "store-hole"
    GENERATION_DAMAGED = "generation-damaged", "generation {generation}: {error}"
    GENERATION_AHEAD = (
        "generation-ahead",
        "generation {generation} covers events to {sequence}, but the journal ends at {journal}",
    )
    SEEN_DAMAGED = "seen-damaged"
    REPAIR_UNFINISHED = "repair-unfinished", "a repair was interrupted: run `crawler repair` again"
    # Rows of the store.
    ROW_DAMAGED = "row-damaged", "{family} {key}: {error}"
    ROW_MISPLACED = "row-misplaced", "pending {url} is in the queue of {host}"
    NUMBER_TOO_HIGH = "number-too-high", "{family} {key}: number {number} is not below the next one, {next}"
    # Files of records.
    FILE_LOST = (
        "file-lost",
        "missing, or not a file: restore it; without it, all later records are at the wrong offsets",
    )
    FILE_CUT = "file-cut", "offset {offset}: no record can be read from there to the end of the file"
    FRAME_DAMAGED = "frame-damaged", "offset {offset}: a frame is damaged: {bytes:byte} of records cannot be read"
    TABLE_LOST = (
        "table-lost",
        "the table of frames is missing, as if another program had compressed the file: it is read from the start",
    )
    # The output.
    LINE_DAMAGED = "line-damaged", "offset {offset}: not the record of a URL"
    RECORD_CHANGED = "record-changed", "offset {offset}: differs from the record of {url} written there"
    RECORDS_LOST = "records-lost", "{urls:finished URL} without a complete record: the next run fetches what is missing"
    OUTPUT_LOST = "output-lost", "missing: put it back, or run `crawler repair` to fetch its pages again"
    PARTS_LOST = "parts-lost", "{parts:part} of pages missing, the first at offset {offset}, of {of}"
    BODIES_LOST = "bodies-lost", "the bodies of {bodies:page} are missing or damaged; the first is {file}, of {of}"
    # Parts that disagree.
    ADMITTED_NOT_SEEN = "admitted-not-seen", "journal {number}: the seen-set lacks {missing} of {of:admitted URL}"
    PENDING_NOT_SEEN = "pending-not-seen", "the seen-set lacks {missing:pending URL}, the first at {key}"
    FINISHED_NOT_SEEN = "finished-not-seen", "offset {offset}: the seen-set lacks a finished URL: {key_text}"
    DIGESTS_DIFFER = "digests-differ", "the {rows:digest} in the store differ from the {journal:digest} in the journal"
    HASH_DIFFERS = "hash-differs", "its hash of URLs or its secret differs from the one in store/"
    COUNT_DIFFERS = "count-differs", "{counter}: {counted} counted, but {found} found"
    HOST_COUNT_DIFFERS = "host-count-differs", "host {host}: {counter}: {counted} counted, but {found} found"
    HOST_CURSOR = "host-cursor", "host {host}: its queue has entries before {cursor}, where reading starts"
    HOST_MISSING = "host-missing", "host {host} has {pending:pending URL} but no host record"
    ROBOTS_MISSING = "robots-missing", "robots.txt of host {host} was fetched, but no response is stored"
    REQUEST_MISSING = "request-missing", "the request {name} is pending but not stored"
    SCHEDULE_DIFFERS = "schedule-differs", "{url}: its record and the schedule have different times for its next visit"
    MESSAGES_MISSING = (
        "messages-missing",
        "outbox: {missing:message} for partition {target} missing before number {number}",
    )
    OUTPUT_END = "output-end", "ends at {found}, but the journal's last record ends at {journal}"
    PARTITION_GONE = (
        "partition-gone",
        "the job directory of the partition is missing, and with it URLs that are stored nowhere else",
    )
    HOST_ELSEWHERE = "host-elsewhere", "host {host} belongs to partition {owner}"


class Severity(StrEnum):
    """``DAMAGED``: the bytes differ from those written. ``DISAGREES``: everything is readable, but two parts contradict
    each other. ``SELF_HEALING``: the problem was left by a power loss, and the next run removes it without data
    loss."""

    DAMAGED = "damaged"
    DISAGREES = "disagrees"
    SELF_HEALING = "self-healing"


_DISAGREES = frozenset(list(Kind)[list(Kind).index(Kind.ADMITTED_NOT_SEEN) :])


class Finding(Struct, frozen=True):
    """A problem. ``place`` is a file or directory of the job. If the problem concerns a single row of the store,
    ``family`` and ``key`` identify the row. ``mends`` is True if the next run repairs the problem."""

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

    @property
    def is_fault(self) -> bool:
        """True if the user must do something about the finding."""
        return self.severity is not Severity.SELF_HEALING

    @property
    def text(self) -> str:
        """One line about the finding."""
        details: dict[str, object] = {"family": self.family, **self.details}
        if self.key is not None:
            details = {"number": int.from_bytes(self.key, "big"), **details, "key": repr(self.key)}
        text = self.kind.filled(details)
        named = text if self.place == "." or text.startswith(self.place) else f"{self.place}: {text}"
        return named if self.is_fault else f"{named} (left by a power loss; the next run repairs it)"


class Done(Worded):
    """A change made by a repair. The names are part of ``repair --json``: a name never changes its meaning."""

    LOG_DAMAGED = "log-damaged", "store/{error}"
    STORE_REPAIRED = (
        "store-repaired",
        "store/: {error}: used a repaired copy; a backup may have the data that the copy lacks",
    )
    STORE_LOST = "store-lost", "store/ is unreadable: {error}: a backup may still have the data"
    CRAWL_RESTARTED = (
        "crawl-restarted",
        "store/ is empty: moved the records away; the crawl starts over, unless you restore a backup",
    )
    SETTINGS_REBUILT = "settings-rebuilt", "rebuilt job.json from the copy in store/"
    SECRET_RESTORED = "secret-restored", "restored the secret of the seen-set from {source}"
    FILE_REMOVED = "file-removed", "{file}: {error}: moved it away"
    ROWS_REMOVED = "rows-removed", "left out {count:damaged row} of the family {family}"
    COUNTERS_LOST = "counters-lost", "recounted the lost counters; those of links, retries and duplicates restart at 0"
    URLS_PENDING_AGAIN = "urls-pending-again", "requeued {count:finished URL} without a complete record"
    URLS_FORGOTTEN = (
        "urls-forgotten",
        "forgot {count:admitted URL} without an address; each is fetched when a link to it is found",
    )
    LINES_REMOVED = (
        "lines-removed",
        "pages.jsonl: removed {removed:damaged, unfinished or pending line} and kept {kept}",
    )
    OUTPUT_REWRITTEN = (
        "output-rewritten",
        "{output}/: copied the parts of kept records to new files, and moved {files:file} away",
    )
    BODIES_MOVED = "bodies-moved", "bodies/: moved {count:damaged file} away"
    ASIDES_REMOVED = (
        "asides-removed",
        "forgot {count:part} missing from an output: robots.txt files are fetched again, and `crawler text` recreates "
        "its parts",
    )
    REBUILT = "rebuilt", "rebuilt queues, journal, counters and seen-set: {pending:pending URL}, {finished:record}"
    QUARANTINED = "quarantined", "kept the replaced files in {directory}/"


class Change(Struct, frozen=True):
    """One change made by a repair."""

    done: Done
    details: dict[str, Detail]

    def as_json(self) -> dict[str, Any]:
        return {"done": self.done.value, **self.details}

    @property
    def text(self) -> str:
        """One line about the change."""
        return self.done.filled(self.details)


Tell = Callable[[Change], None]
