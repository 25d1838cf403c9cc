"""An index of pending URLs whose classes may change, so that a link with a better score can find them.

A row maps the href of a pending URL to its slot. It is written in the transaction that queues the URL, and deleted in
the one that finishes it. Rows are kept only while links have scores. A row is a hint: if no entry has the slot, because
the URL is being retried or was finished in a run without scores, the row is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry

PREFIX = b"place/"  # prefix of the keys in META, followed by the href


class Places:
    """The slots of a job's pending URLs."""

    def __init__(self, store: Reader) -> None:
        self._store = store

    def note(self, entry: Entry, slot: bytes, batch: Batch) -> None:
        """Record the slot of an entry. First-class entries, revisits and probes need no row."""
        if entry.priority and not (entry.revisit or entry.probe):
            batch.put(Family.META, _key(entry.href), slot)

    def find(self, hrefs: Sequence[str]) -> list[bytes | None]:
        """Return the slot of each href, or None for one without a row."""
        return self._store.get_many(Family.META, [_key(href) for href in hrefs])

    def forget(self, href: str, batch: Batch) -> None:
        """Delete the row of a URL that no longer waits in its slot."""
        batch.delete(Family.META, _key(href))


def _key(href: str) -> bytes:
    return PREFIX + href.encode("ascii")
