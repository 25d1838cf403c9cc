"""The scope of a job in every mode: a later run may use another mode, so each seed's entry in every mode is stored."""

from __future__ import annotations

from crawler.kv import Batch, Family, Reader
from crawler.scope import Scope
from crawler.settings import SCOPES


def scope_key(mode: str, entry: str) -> bytes:
    """The META key of an entry of a scope."""
    return f"scope/{mode}/{entry}".encode()


class Scopes:
    """``current`` is the scope of this run. New entries go into the batch of the next transaction."""

    def __init__(self, store: Reader, mode: str) -> None:
        self._of_mode = {each: Scope(each) for each in SCOPES}
        self.current = self._of_mode[mode]
        self._new: list[bytes] = []
        self.untold: list[str] = []  # URLs by which this job, and no other partition, widened the scope of the run
        prefix = scope_key(mode, "")
        rows = store.scan(Family.META, prefix, prefix[:-1] + b"0")
        self.current.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)

    def widen(self, href: str, *, told: bool = False) -> bool:
        """Add the URL. Returns whether the scope of this run grew. ``told``: another partition says so."""
        grown = self.current.widen(href)
        for mode, scope in self._of_mode.items():
            entry = grown if scope is self.current else scope.entry(href)
            if entry is not None:
                self._new.append(scope_key(mode, entry))
        if grown is not None and not told:
            self.untold.append(href)
        return grown is not None

    def store(self, batch: Batch) -> None:
        """Put the entries that are new since the last call into the batch."""
        for key in self._new:
            batch.put(Family.META, key, b"")
        self._new.clear()
