"""Moves pending URLs that match a pattern to another priority class.

The rows of the queues are read a few at a time, in the order of their keys, while the crawl runs. Each piece is one
transaction, which also stores the progress (META, ``class/`` and the name of the requesting batch), so a crash repeats
nothing. URLs admitted meanwhile get their class from the rules, and URLs in flight keep theirs.
"""

from __future__ import annotations

from collections.abc import Collection

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry, decode_entry, split_pending_key
from crawler.frontier.frontier import Frontier
from crawler.job.records import StoredValue
from crawler.url.scope.patterns import Pattern

ROWS = 250  # rows read in one transaction
_PROGRESS = b"class/"
_STATE = StoredValue(tuple[int, bool, bytes], "the progress of a change")  # moved, whether all is read, next key


class Reclassing:
    """Changes the classes of a job's pending URLs."""

    def __init__(self, store: Reader, frontier: Frontier) -> None:
        self._store = store
        self._frontier = frontier

    def step(self, url_batch: str, pattern: Pattern, priority: int, batch: Batch) -> bool:
        """Read some rows, and move those that match to the class. Returns True if more are left. Raises EntryError."""
        moved, done, at = self._state(url_batch)
        if done:
            return False
        start, end = self._range(pattern)
        rows = self._store.scan(Family.PENDING, max(at, start), end, ROWS)
        found: list[tuple[bytes, Entry]] = []
        for key, value in rows:
            entry = decode_entry(value)
            if entry.priority != priority and not entry.probe and pattern.matches(entry.href):
                found.append((split_pending_key(key)[1], entry._replace(priority=priority)))
        moved += self._frontier.change_class(found, batch)
        done = len(rows) < ROWS
        at = b"" if done else rows[-1][0] + b"\0"
        batch.put(Family.META, _key(url_batch), _STATE.encode((moved, done, at)))
        return not done

    def moved(self, url_batch: str) -> int:
        """Return the number of URLs moved so far."""
        return self._state(url_batch)[0]

    def forget(self, url_batch: str, batch: Batch) -> None:
        """Delete the state of a batch that has been removed."""
        batch.delete(Family.META, _key(url_batch))

    def forget_others(self, url_batches: Collection[str], batch: Batch) -> None:
        """Delete the states of all other batches: a crash may have prevented the removal of a state."""
        for key, _ in self._store.scan(Family.META, _PROGRESS, _PROGRESS + b"\xff"):
            if key.removeprefix(_PROGRESS).decode("ascii", "replace") not in url_batches:
                batch.delete(Family.META, key)

    def _range(self, pattern: Pattern) -> tuple[bytes, bytes | None]:
        """Return the key range of the rows that may match."""
        if pattern.host is None:
            return b"", None
        name = self._frontier.queue_of(pattern.host).encode("ascii")
        return name + b"\0", name + b"\1"

    def _state(self, url_batch: str) -> tuple[int, bool, bytes]:
        return _STATE.read(self._store, _key(url_batch)) or (0, False, b"")


def _key(url_batch: str) -> bytes:
    return _PROGRESS + url_batch.encode("ascii")
