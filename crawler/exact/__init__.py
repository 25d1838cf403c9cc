"""The seen-set without false positives: no page may be skipped.

A Bloom filter answers most questions and is wrong now and then. Here it only decides what must be looked up: what it
denies is new, and what it does not deny is asked of rows that hold a digest of every URL ever admitted. A URL is called
known only if its row is there.

    rows    from a key to its row: a hash of the host, a hash of the key
    seen    the seen-set: the filter in front, the rows behind it
    ledger  rows for a filter that answers alone: what the filter calls seen is looked up later

The rows lie in the job's own store and are written in the batch that queues the URLs, so the two become durable
together. Nothing here touches the disk itself.
"""

from crawler.exact.ledger import LEDGER_COUNTS, Ledger, LedgerCounts
from crawler.exact.rows import ROW_BYTES, digest_exactly, rows_of
from crawler.exact.seen import Answers, ExactSeenSet, check_room, load_seen, make_seen

__all__ = [
    "LEDGER_COUNTS",
    "ROW_BYTES",
    "Answers",
    "ExactSeenSet",
    "Ledger",
    "LedgerCounts",
    "check_room",
    "digest_exactly",
    "load_seen",
    "make_seen",
    "rows_of",
]
