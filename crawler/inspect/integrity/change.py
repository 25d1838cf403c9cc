"""The changes made by a repair, as values with sentences for users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from crawler.inspect.integrity.finding import Detail, Worded


class Done(Worded):
    """A change made by a repair. The names are part of ``repair --json``: a name never changes its meaning."""

    LOG_DAMAGED = "log-damaged", "store/{error}"
    STORE_REPAIRED = (
        "store-repaired",
        "store/: {error}: read a repaired copy of it; a backup may have the data missing there",
    )
    STORE_LOST = "store-lost", "store/ is unreadable: {error}: a backup may still have the data"
    CRAWL_RESTARTED = (
        "crawl-restarted",
        "store/ is empty: moved the records away; the crawl starts over, unless you restore a backup",
    )
    SETTINGS_REBUILT = "settings-rebuilt", "rebuilt job.json from the copy in store/"
    SECRET_RESTORED = "secret-restored", "restored the secret of the seen-set from {source}"
    SECRET_LOST = "secret-lost", "the secret of the seen-set is lost: rebuilding journal and seen-set with a new one"
    FILE_REMOVED = "file-removed", "{file}: {error}: moved it away; it will be recreated"
    BATCH_REMOVED = "batch-removed", "inbox/: {error}: kept it as {kept_as}"
    ROWS_REMOVED = "rows-removed", "left out {count:damaged row} of the family {family}"
    COUNTERS_LOST = "counters-lost", "recounted the lost counters; those of links, retries and duplicates restart at 0"
    LEDGER_COUNTS_LOST = "ledger-counts-lost", "the counts of the ledger are lost and restart at 0"
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
        "removed {count:part} missing from an output: robots.txt files are fetched again, and `crawler text` recreates "
        "its own",
    )
    REBUILT = "rebuilt", "rebuilt queues, journal, counters and seen-set: {pending:pending URL}, {finished:record}"
    QUARANTINED = "quarantined", "kept the replaced files in {directory}/"


class Change(Struct, frozen=True):
    """One change made by a repair."""

    done: Done
    details: dict[str, Detail]

    def as_json(self) -> dict[str, Any]:
        return {"done": self.done.value, **self.details}


Tell = Callable[[Change], None]
