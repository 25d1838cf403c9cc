"""Where URLs wait whose classes may change, so that a link with a better score finds them.

A row says for the href of a pending URL which slot it has. It is written in the transaction that queues the URL, and
goes in the one that finishes it. Rows are kept only while links have scores. A row is a hint: if no entry has the slot
any more, because the URL is being tried again or was finished in a run without scores, the row is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry

PREFIX = b"place/"  # of the keys in META, before the href


class Places:
    """The places of the pending URLs of a job."""

    def __init__(self, store: Reader) -> None:
        self._store = store

    def note(self, entry: Entry, slot: bytes, batch: Batch) -> None:
        """The entry waits in this slot. What goes first already has no row, and what the crawler made up has none."""
        if entry.priority and not (entry.revisit or entry.probe):
            batch.put(Family.META, _key(entry.href), slot)

    def find(self, hrefs: Sequence[str]) -> list[bytes | None]:
        """The slot of each; None for one without a row."""
        return self._store.get_many(Family.META, [_key(href) for href in hrefs])

    def forget(self, href: str, batch: Batch) -> None:
        """The URL waits there no more."""
        batch.delete(Family.META, _key(href))


def _key(href: str) -> bytes:
    return PREFIX + href.encode("ascii")
