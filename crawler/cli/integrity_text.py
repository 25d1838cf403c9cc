"""Findings of ``verify`` and changes by ``repair`` in words."""

from __future__ import annotations

from collections.abc import Mapping

from crawler.integrity.change import Change, Done
from crawler.integrity.finding import Finding, Kind

# Of each kind a sentence, with the details of the finding and the key of its row.
FINDING_WORDS: Mapping[Kind, str] = {
    Kind.UNREADABLE: "{error}",
    Kind.LOG_DAMAGED: "{error}",
    Kind.STORE_NOT_OPENED: "{error}",
    Kind.STORE_HOLE: "{error}",
    Kind.RUN_SETTINGS_DAMAGED: "{error}",
    Kind.HISTORY_DAMAGED: "{error}",
    Kind.PARCEL_DAMAGED: "{error}",
    Kind.GENERATION_DAMAGED: "generation {generation}: {error}",
    Kind.GENERATION_AHEAD: "generation {generation} covers journal sequence {sequence}, the journal ends at {journal}",
    Kind.SEEN_DAMAGED: "{error}",
    Kind.REPAIR_UNFINISHED: "a repair was interrupted: run `crawler repair` again",
    Kind.META_DAMAGED: "meta {key}: {error}",
    Kind.EVENT_DAMAGED: "journal {number}: {error}",
    Kind.EVENT_BEYOND_END: "journal {number}: at or beyond the next number, {next}",
    Kind.ENTRY_DAMAGED: "pending {key}: {error}",
    Kind.ENTRY_NUMBER: "pending {key}: number {number}, but the next number is {next}",
    Kind.ENTRY_NOT_CANONICAL: "pending URL is not canonical: {url}",
    Kind.ENTRY_MISPLACED: "pending {url} is in the queue of {host}",
    Kind.HOST_DAMAGED: "{error}",
    Kind.ROBOTS_DAMAGED: "robots.txt of {key}: {error}",
    Kind.TRAP_DAMAGED: "trap {key}: {error}",
    Kind.COPY_DAMAGED: "content {key}: {error}",
    Kind.DOUBT_DAMAGED: "ledger {key}: not a URL with that digest",
    Kind.LEDGER_COUNTS_DAMAGED: "meta {key}: {error}",
    Kind.PAGE_DAMAGED: "page {key}: {error}",
    Kind.DUE_DAMAGED: "due {key}: {error}",
    Kind.LINE_CUT: "offset {offset}: not a whole line",
    Kind.LINE_NOT_JSON: "offset {offset}: not JSON: {error}",
    Kind.RECORD_DAMAGED: "offset {offset}: not a record of a URL",
    Kind.RECORD_CHANGED: "offset {offset}: not the record of {url} that was written there",
    Kind.ADMITTED_NOT_SEEN: "journal {number}: {missing} of {of} admitted URLs are not in the seen-set",
    Kind.PENDING_NOT_SEEN: "{missing} pending URLs from {key} on are not in the seen-set",
    Kind.FINISHED_NOT_SEEN: "offset {offset}: finished, but not in the seen-set: {key_text}",
    Kind.ADMITTED_COUNT: "{counted} URLs counted as admitted, the journal names {found}",
    Kind.PENDING_COUNT: (
        "{admitted} admitted and {revisits} queued for another visit, minus {done} done, are {counted}, "
        "but the queues hold {found}"
    ),
    Kind.HOST_COUNT: "{counted} hosts counted, but there are records of {found}",
    Kind.HOST_QUEUE_COUNT: (
        "host {host} counts {counted} pending ({counted_retries} for a retry), its queue holds {found} "
        "({found_retries})"
    ),
    Kind.HOST_OUTPUT_COUNT: (
        "host {host} counts {counted_fetched} fetched and {counted_failed} failed, pages.jsonl holds {found_fetched} "
        "and {found_failed}"
    ),
    Kind.HOST_CURSOR: "host {host}: its queue has entries before {cursor}, where reading begins",
    Kind.HOST_MISSING: "{pending} URLs are pending for {host}, which has no host record",
    Kind.ROBOTS_MISSING: "host {host} has fetched robots.txt, but no answer is stored",
    Kind.TRAP_COUNT: "traps have counted {found} in all, the job's counters say {counted}",
    Kind.DOUBT_COUNT: "{counted} URLs counted as doubted, the ledger holds {found}",
    Kind.LEDGER_DIGESTS: "the ledger has digests of {rows} admitted URLs, the journal of {journal}, and they differ",
    Kind.SEEN_DIGESTS: "the exact seen-set has {rows} digests, the journal {journal}, and they differ",
    Kind.SEEN_COUNT: "the exact seen-set counts {counted} rows, it has {found}",
    Kind.REVISIT_COUNT: "{counted} revisits counted as pending, the queues hold {found}",
    Kind.PAGE_UNSCHEDULED: "page {url} has no time for its next visit and is not queued",
    Kind.PAGE_NOT_DUE: "page {url} is missing from the schedule",
    Kind.DUE_UNKNOWN: "due {url}: no page with that time",
    Kind.SCHEDULED_COUNT: "{counted} pages counted as scheduled, {found} are in the schedule",
    Kind.OUTPUT_END: "ends at {found}, but the journal's last record ends at {journal}",
    Kind.OUTPUT_COUNT: "{found} records, but {counted} URLs counted as done",
}

CHANGE_WORDS: Mapping[Done, str] = {
    Done.LOG_CUT: "store/{error}: read up to there; a copy is kept",
    Done.STORE_LOST: "store/: nothing in it can be read: {error}",
    Done.STORE_SALVAGED: "store/: {text}",
    Done.CRAWL_RESTARTED: "store/ is empty: the crawl starts over, and the records so far are moved away",
    Done.SETTINGS_REBUILT: "rebuilt job.json from {source}",
    Done.RULES_UNKNOWN: "no generation says what canonical.rules were: assumed none",
    Done.RUN_SETTINGS_REMOVED: "{error}: moved away; the next run writes it",
    Done.HISTORY_REMOVED: "{error}: moved away; the history starts over",
    Done.PARCEL_REMOVED: "inbox/: {error}: moved away as {kept_as}",
    Done.QUARANTINED: "what was replaced is kept in {directory}/",
    Done.EVENTS_REMOVED: "removed {count} damaged events ({family}) from the journal",
    Done.ENTRIES_REMOVED: "removed {count} rows of the queue without a readable URL",
    Done.ROBOTS_REMOVED: "removed {count} damaged robots.txt records: they will be fetched again",
    Done.TRAPS_REMOVED: "removed {count} damaged counts of traps: counting starts over there",
    Done.COPIES_REMOVED: "removed {count} damaged content marks",
    Done.DOUBTS_REMOVED: "removed {count} unreadable doubted URLs: they are doubted again when they are found again",
    Done.DOUBTS_MOVED: "moved {count} doubted URLs to their own rows",
    Done.LEDGER_COUNTS_LOST: "the counts of the ledger were lost: they start at 0",
    Done.COUNTERS_LOST: "recounted the counters, which were lost; those of links, retries and duplicates start at 0",
    Done.URLS_PENDING_AGAIN: "made {count} finished URLs without a whole record pending again",
    Done.URLS_REQUEUED: "queued {count} pending URLs again that were in the wrong row",
    Done.DUPLICATES_REMOVED: "removed {count} duplicates from the queue",
    Done.LINES_REMOVED: (
        "pages.jsonl: removed {removed} lines that were damaged, unfinished or of pending URLs, and kept {kept}"
    ),
    Done.URLS_FORGOTTEN: (
        "forgot {count} admitted URLs whose addresses are lost: they are fetched when a link to them is found"
    ),
    Done.JOURNAL_COMPLETED: "added {count} pending or finished URLs to the journal",
    Done.HOSTS_CORRECTED: "corrected the counts of {count} hosts",
    Done.HOSTS_REBUILT: "rebuilt the records of {count} hosts with pending URLs: robots.txt will be fetched",
    Done.SCHEDULE_REBUILT: "corrected {count} rows of the schedule of revisits",
    Done.COUNTERS_CORRECTED: "corrected the counters from queue, journal and output",
    Done.GENERATION_REMOVED: "seen/: generation {generation}: {error}: moved away",
    Done.SEEN_DAMAGED: "seen/: {error}",
    Done.SEEN_REBUILT: "rebuilt the seen-set from {source}, and added {replayed} URLs of the journal",
}

_SOURCES = {"store": "the copy in store/", "generation": "a generation of the seen-set"}
_DIRECTORIES = frozenset({"store", "seen", "inbox"})


def finding_text(finding: Finding) -> str:
    """One line."""
    details: dict[str, object] = dict(finding.details)
    if finding.key is not None:
        details["key"] = repr(finding.key)
        details.setdefault("number", int.from_bytes(finding.key, "big"))
    text = FINDING_WORDS[finding.kind].format(**details)
    match finding.kind:
        case Kind.UNREADABLE | Kind.RUN_SETTINGS_DAMAGED | Kind.HISTORY_DAMAGED:
            return text  # the error names the file
        case Kind.LOG_DAMAGED:
            return f"{finding.place}/{text}"
    return f"{finding.place}/: {text}" if finding.place in _DIRECTORIES else f"{finding.place}: {text}"


def change_text(change: Change) -> str:
    """One line."""
    details: dict[str, object] = dict(change.details)
    if change.done is Done.SETTINGS_REBUILT:
        details["source"] = _SOURCES[str(details["source"])]
    elif change.done is Done.SEEN_REBUILT:
        number = details["generation"]
        details["source"] = "the journal alone" if number is None else f"generation {number}"
    return CHANGE_WORDS[change.done].format(**details)
