"""Puts the findings of ``verify`` and the changes by ``repair`` into words."""

from __future__ import annotations

from collections.abc import Mapping

from crawler.base.figures import counted
from crawler.inspect.integrity.change import Change, Done
from crawler.inspect.integrity.finding import Detail, Finding, Kind, is_fault

# One sentence for each kind, with the details of the finding and the key of its row; of a kind that is not named here,
# the error says all. ``{count:row}`` becomes "1 row" or "2 rows".
FINDING_WORDS: Mapping[Kind, str] = {
    Kind.GENERATION_DAMAGED: "generation {generation}: {error}",
    Kind.GENERATION_AHEAD: "generation {generation} covers events to {sequence}, but the journal ends at {journal}",
    Kind.REPAIR_UNFINISHED: "a repair was interrupted: run `crawler repair` again",
    Kind.META_DAMAGED: "meta {key}: {error}",
    Kind.EVENT_DAMAGED: "journal {number}: {error}",
    Kind.EVENT_BEYOND_END: "journal {number}: not below the next number, {next}",
    Kind.ENTRY_DAMAGED: "pending {key}: {error}",
    Kind.ENTRY_NUMBER: "pending {key}: number {number}, but the next number is {next}",
    Kind.ENTRY_NOT_CANONICAL: "pending URL is not canonical: {url}",
    Kind.ENTRY_MISPLACED: "pending {url} is in the queue of {host}",
    Kind.ROBOTS_DAMAGED: "robots.txt of {key}: {error}",
    Kind.TRAP_DAMAGED: "trap {key}: {error}",
    Kind.COPY_DAMAGED: "content {key}: {error}",
    Kind.SOFT404_DAMAGED: "soft404 {key}: {error}",
    Kind.PAYLOAD_DAMAGED: "payload {key}: {error}",
    Kind.DOUBT_DAMAGED: "ledger {key}: not a URL with that digest",
    Kind.LEDGER_COUNTS_DAMAGED: "meta {key}: {error}",
    Kind.PAGE_DAMAGED: "page {key}: {error}",
    Kind.DUE_DAMAGED: "due {key}: {error}",
    Kind.LEFT_OUT_DAMAGED: "left out {key}: {error}",
    Kind.OUTBOX_DAMAGED: "message for another partition {key}: {error}",
    Kind.INLET_DAMAGED: "what came from another partition {key}: {error}",
    Kind.FILE_LOST: "not there, or not a file: restore it; without it the records behind it are not where they were",
    Kind.FILE_CUT: "offset {offset}: no record can be read from there to the end of the file",
    Kind.FRAME_DAMAGED: "offset {offset}: a frame is damaged: its {bytes:byte} of records cannot be read",
    Kind.TABLE_LOST: "no table of frames, as if another program had compressed it: its records are read from its start",
    Kind.LINE_CUT: "offset {offset}: not a whole line",
    Kind.LINE_NOT_JSON: "offset {offset}: not JSON: {error}",
    Kind.RECORD_DAMAGED: "offset {offset}: not a record of a URL",
    Kind.RECORD_CHANGED: "offset {offset}: differs from the record of {url} that was written there",
    Kind.OUTPUT_LOST: "missing: put it back, or {what} has its pages fetched again",
    Kind.PARTS_LOST: "lacks {parts:part} of pages, the first at offset {offset}, of {of}",
    Kind.BODIES_LOST: "lacks the bodies of {bodies:page}, or they are damaged; the first is {file}, of {of}",
    Kind.ADMITTED_NOT_SEEN: "journal {number}: the seen-set lacks {missing} of {of:admitted URL}",
    Kind.PENDING_NOT_SEEN: "the seen-set lacks {missing:pending URL}, the first at {key}",
    Kind.FINISHED_NOT_SEEN: "offset {offset}: the seen-set lacks a finished URL: {key_text}",
    Kind.HASH_DIFFERS: "its hash of URLs, or the secret of it, is another than that of store/",
    Kind.PARTITION_GONE: "the job directory of the partition is gone, and with it URLs that nothing else knows",
    Kind.HOST_ELSEWHERE: "host {host} belongs to partition {owner}",
    Kind.RECORDS_ELSEWHERE: (
        "{records:record} of URLs that belong to other partitions, the first at offset {offset}: {url} belongs to "
        "partition {owner}"
    ),
    Kind.ADMITTED_COUNT: "{counted:URL} counted as admitted, but the journal has {found}",
    Kind.PENDING_COUNT: (
        "{counted:URL} counted as pending ({admitted} admitted and {revisits:revisit}, minus {done} done), "
        "but the queues hold {found}"
    ),
    Kind.HOST_COUNT: "{counted:host} counted, but {found:host record} found",
    Kind.HOST_QUEUE_COUNT: (
        "host {host} counts {counted:pending URL} ({counted_retries} for a retry), but its queue holds {found} "
        "({found_retries})"
    ),
    Kind.HOST_OUTPUT_COUNT: (
        "host {host} counts {counted_fetched} fetched and {counted_failed} failed, but pages.jsonl has "
        "{found_fetched} and {found_failed}"
    ),
    Kind.HOST_CURSOR: "host {host}: its queue has entries before {cursor}, where reading starts",
    Kind.HOST_MISSING: "host {host} has {pending:pending URL} but no host record",
    Kind.ROBOTS_MISSING: "host {host} has fetched its robots.txt, but no answer is stored",
    Kind.REQUEST_MISSING: "the request {name} is pending but not stored",
    Kind.TRAP_COUNT: "the counters have {counted:trap count}, but the trap records hold {found}",
    Kind.DOUBT_COUNT: "{counted:URL} counted as doubted, but the ledger holds {found}",
    Kind.LEDGER_DIGESTS: "the digests in the ledger ({rows}) and in the journal ({journal}) differ",
    Kind.SEEN_DIGESTS: "the digests in the exact seen-set ({rows}) and in the journal ({journal}) differ",
    Kind.SEEN_COUNT: "the row count of the exact seen-set is {counted}, but it has {found:row}",
    Kind.REVISIT_COUNT: "{counted:revisit} counted as pending, but the queues hold {found}",
    Kind.PAGE_UNSCHEDULED: "page {url} has no time for its next visit and is not queued",
    Kind.PAGE_NOT_DUE: "page {url} is missing from the schedule",
    Kind.DUE_UNKNOWN: "schedule: no page {url} is due at that time",
    Kind.SCHEDULED_COUNT: "{counted:page} counted as scheduled, but the schedule has {found}",
    Kind.HELD_BACK_COUNT: "{counted:URL} counted as excluded by the rule {rule}, but {found} are stored",
    Kind.BORDER_COUNT: "{counted:page} counted as having links that limits left out, but {found} are stored, or other "
    "numbers of links",
    Kind.MESSAGES_MISSING: "outbox: {missing:message} for partition {target} missing before number {number}",
    Kind.OUTPUT_END: "ends at {found}, but the journal's last record ends at {journal}",
    Kind.OUTPUT_COUNT: "{found:record} found, but {counted:URL} counted as done",
}

CHANGE_WORDS: Mapping[Done, str] = {
    Done.LOG_DAMAGED: "store/{error}",
    Done.STORE_REPAIRED: "store/: {error}: read a repaired copy of it; a backup may still have what that lacks",
    Done.STORE_LOST: "store/: nothing could be read from it: {error}: a backup may still have it",
    Done.CRAWL_RESTARTED: "store/ is empty: moved the records away; the crawl starts over, unless you restore a backup",
    Done.SETTINGS_REBUILT: "rebuilt job.json from the copy in store/",
    Done.SECRET_RESTORED: "restored the secret of the seen-set from {source}",
    Done.SECRET_LOST: "the secret of the seen-set is lost: journal and seen-set are rebuilt with a new one",
    Done.FILE_REMOVED: "{file}: {error}: moved it away; the program makes it again",
    Done.BATCH_REMOVED: "inbox/: {error}: kept it as {kept_as}",
    Done.ROWS_REMOVED: "left out {count:damaged row} of the family {family}",
    Done.COUNTERS_LOST: "recounted the lost counters; those of links, retries and duplicates start at 0",
    Done.LEDGER_COUNTS_LOST: "the counts of the ledger are lost and start at 0",
    Done.URLS_PENDING_AGAIN: "made {count:finished URL} without a whole record pending again",
    Done.URLS_FORGOTTEN: "forgot {count:admitted URL} without an address, to be fetched when a link is found",
    Done.LINES_REMOVED: "pages.jsonl: removed {removed:damaged, unfinished or pending line} and kept {kept}",
    Done.OUTPUT_REWRITTEN: "{output}/: copied what kept records name to new files, and moved {files:file} away",
    Done.BODIES_MOVED: "bodies/: moved {count:damaged file} away",
    Done.ASIDES_REMOVED: "removed {count:part} that an output lost: a robots.txt is fetched again, and what "
    "`crawler text` made it makes again",
    Done.REBUILT: "rebuilt queues, journal, counters and seen-set: {pending:pending URL}, {finished:record}",
    Done.QUARANTINED: "kept what was replaced in {directory}/",
}

_DIRECTORIES = frozenset({"store", "seen", "inbox", "bodies"})


class _Quantity(int):
    """A number that is formatted with the noun in its format, if there is one."""

    def __format__(self, noun: str) -> str:
        return counted(self, noun) if noun else str(int(self))


def finding_text(finding: Finding) -> str:
    """Return one line about the finding."""
    text = _text(finding)
    if is_fault(finding) or finding.kind is Kind.OUTPUT_LOST:  # which somebody may have deleted
        return text
    return f"{text} (left by a power loss; the next run mends it)"


def _text(finding: Finding) -> str:
    details = _formattable(finding.details)
    details["what"] = "the next run" if finding.mends else "`crawler repair`"
    if finding.key is not None:
        details["key"] = repr(finding.key)
        details.setdefault("number", int.from_bytes(finding.key, "big"))
    text = FINDING_WORDS.get(finding.kind, "{error}").format(**details)
    match finding.kind:
        case (
            Kind.UNREADABLE
            | Kind.RUN_SETTINGS_DAMAGED
            | Kind.COMMAND_DAMAGED
            | Kind.HISTORY_DAMAGED
            | Kind.MARKDOWN_DAMAGED
        ):
            return text  # the error names the file
        case Kind.LOG_DAMAGED:
            return f"{finding.place}/{text}"
    return f"{finding.place}/: {text}" if finding.place in _DIRECTORIES else f"{finding.place}: {text}"


def change_text(change: Change) -> str:
    """Return one line about the change."""
    return CHANGE_WORDS[change.done].format(**_formattable(change.details))


def _formattable(details: Mapping[str, Detail]) -> dict[str, object]:
    known = {name: "missing" if value is None else value for name, value in details.items()}
    return {name: _Quantity(value) if isinstance(value, int) else value for name, value in known.items()}
