"""The changes that a repair makes, as values with words for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from crawler.inspect.integrity.finding import Detail, Worded


class Done(Worded):
    """What was done. The names are part of ``repair --json``: a name never changes its meaning."""

    LOG_DAMAGED = "log-damaged", "store/{error}"
    STORE_REPAIRED = (
        "store-repaired",
        "store/: {error}: read a repaired copy of it; a backup may still have what that lacks",
    )
    STORE_LOST = "store-lost", "store/: nothing could be read from it: {error}: a backup may still have it"
    CRAWL_RESTARTED = (
        "crawl-restarted",
        "store/ is empty: moved the records away; the crawl starts over, unless you restore a backup",
    )
    SETTINGS_REBUILT = "settings-rebuilt", "rebuilt job.json from the copy in store/"
    SECRET_RESTORED = "secret-restored", "restored the secret of the seen-set from {source}"
    SECRET_LOST = "secret-lost", "the secret of the seen-set is lost: journal and seen-set are rebuilt with a new one"
    FILE_REMOVED = "file-removed", "{file}: {error}: moved it away; the program makes it again"
    BATCH_REMOVED = "batch-removed", "inbox/: {error}: kept it as {kept_as}"
    ROWS_REMOVED = "rows-removed", "left out {count:damaged row} of the family {family}"
    COUNTERS_LOST = "counters-lost", "recounted the lost counters; those of links, retries and duplicates start at 0"
    LEDGER_COUNTS_LOST = "ledger-counts-lost", "the counts of the ledger are lost and start at 0"
    URLS_PENDING_AGAIN = "urls-pending-again", "made {count:finished URL} without a whole record pending again"
    URLS_FORGOTTEN = (
        "urls-forgotten",
        "forgot {count:admitted URL} without an address, to be fetched when a link is found",
    )
    LINES_REMOVED = (
        "lines-removed",
        "pages.jsonl: removed {removed:damaged, unfinished or pending line} and kept {kept}",
    )
    OUTPUT_REWRITTEN = (
        "output-rewritten",
        "{output}/: copied what kept records name to new files, and moved {files:file} away",
    )
    BODIES_MOVED = "bodies-moved", "bodies/: moved {count:damaged file} away"
    ASIDES_REMOVED = (
        "asides-removed",
        "removed {count:part} that an output lost: a robots.txt is fetched again, and what `crawler text` made it "
        "makes again",
    )
    REBUILT = "rebuilt", "rebuilt queues, journal, counters and seen-set: {pending:pending URL}, {finished:record}"
    QUARANTINED = "quarantined", "kept what was replaced in {directory}/"


class Change(Struct, frozen=True):
    """One thing that a repair has done."""

    done: Done
    details: dict[str, Detail]

    def as_json(self) -> dict[str, Any]:
        return {"done": self.done.value, **self.details}


Tell = Callable[[Change], None]
