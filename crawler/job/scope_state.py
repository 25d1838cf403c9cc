"""The scope of a job in every mode: a later run may use another mode, so each seed's entry in every mode is stored.

A partition of a crawl reports to the others the URLs that widen the scope of the run. It reports its entries in other
modes only when a run uses that mode: with ``--scope any``, for example, no scope grows, and a hundred million seeds
need not be sent to all.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import SCOPES
from crawler.url.scope.modes import Scope

MODE_TOLD = b"scope-told"  # the META key of the mode in which all entries of this partition have been reported
_OWN = b"\x01"  # the value of an entry that may be unreported; the value is empty if it was reported or need not be


def scope_key(mode: str, entry: str) -> bytes:
    """Return the META key of an entry of a scope."""
    return f"scope/{mode}/{entry}".encode()


class Scopes:
    """The scopes of a job. ``current`` is the scope of this run. New entries go into the next transaction's batch."""

    def __init__(self, store: Reader, mode: str, *, of_partition: bool = False) -> None:
        self._of_mode = {each: Scope(each) for each in SCOPES}
        self.current = self._of_mode[mode]
        self._new: dict[bytes, bytes] = {}
        self._value = _OWN if of_partition else b""
        self.untold: list[str] = []  # URLs by which this job, but no other partition, widened the scope of the run
        self.untold_entries: list[str] = []  # entries from an earlier run in another mode
        prefix = scope_key(mode, "")
        rows = list(store.scan(Family.META, prefix, prefix[:-1] + b"0"))
        self.current.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)
        if of_partition and store.get(Family.META, MODE_TOLD) != mode.encode():
            self._new[MODE_TOLD] = mode.encode()
            self.untold_entries = [key[len(prefix) :].decode("utf-8") for key, value in rows if value == _OWN]

    def widen(self, href: str) -> bool:
        """Add the URL. Returns True if the scope of this run grew."""
        grown = self._add(href, self._value)
        if grown:
            self.untold.append(href)
        return grown

    def hear(self, href: str) -> None:
        """Add a URL that widened the scope in another partition."""
        self._add(href, b"")

    def hear_entries(self, mode: str, entries: Sequence[str]) -> None:
        """Add entries of another partition to the scope of the given mode."""
        scope = self._of_mode.get(mode)
        if scope is None:
            return  # a mode that only a newer version knows
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
        """Add the entries that are new since the last call to the batch."""
        for key, value in self._new.items():
            batch.put(Family.META, key, value)
        self._new.clear()
