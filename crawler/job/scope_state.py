"""The scope of a job in every mode: a later run may use another mode, so each seed's entry in every mode is stored.

A partition of a crawl tells the others by which URLs the scope of the run grows. Its entries in other modes it tells
when a run has that mode: with ``--scope any``, for one, no scope grows, and a hundred million seeds need not be told to
all.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import SCOPES
from crawler.url.scope.modes import Scope

MODE_TOLD = b"scope-told"  # the META key of the mode in which the others know all entries that are our own
_OWN = b"\x01"  # the value of an entry that others may not know; empty: all do, or there are no others


def scope_key(mode: str, entry: str) -> bytes:
    """The META key of an entry of a scope."""
    return f"scope/{mode}/{entry}".encode()


class Scopes:
    """``current`` is the scope of this run. New entries go into the batch of the next transaction."""

    def __init__(self, store: Reader, mode: str, *, of_partition: bool = False) -> None:
        self._of_mode = {each: Scope(each) for each in SCOPES}
        self.current = self._of_mode[mode]
        self._new: dict[bytes, bytes] = {}
        self._value = _OWN if of_partition else b""
        self.untold: list[str] = []  # URLs by which this job, and no other partition, widened the scope of the run
        self.untold_entries: list[str] = []  # of an earlier run that had another mode
        prefix = scope_key(mode, "")
        rows = list(store.scan(Family.META, prefix, prefix[:-1] + b"0"))
        self.current.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)
        if of_partition and store.get(Family.META, MODE_TOLD) != mode.encode():
            self._new[MODE_TOLD] = mode.encode()
            self.untold_entries = [key[len(prefix) :].decode("utf-8") for key, value in rows if value == _OWN]

    def widen(self, href: str) -> bool:
        """Add the URL. Returns whether the scope of this run grew."""
        grown = self._add(href, self._value)
        if grown:
            self.untold.append(href)
        return grown

    def hear(self, href: str) -> None:
        """Another partition says that the URL has widened the scope."""
        self._add(href, b"")

    def hear_entries(self, mode: str, entries: Sequence[str]) -> None:
        """Another partition has these in the scope of that mode."""
        scope = self._of_mode.get(mode)
        if scope is None:
            return  # of a newer version
        self._new.update((scope_key(mode, entry), b"") for entry in entries)
        if scope is self.current:
            scope.restore(entries)

    def _add(self, href: str, value: bytes) -> bool:
        grown = self.current.widen(href)
        for mode, scope in self._of_mode.items():
            entry = grown if scope is self.current else scope.entry(href)
            if entry is not None:
                self._new[scope_key(mode, entry)] = value
        return grown is not None

    def store(self, batch: Batch) -> None:
        """Put the entries that are new since the last call into the batch."""
        for key, value in self._new.items():
            batch.put(Family.META, key, value)
        self._new.clear()
