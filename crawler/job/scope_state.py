"""The scope of a job in every mode: a later run may ask for another, so what a seed means to each is kept."""

from __future__ import annotations

from crawler.kv import Batch, Family, Reader
from crawler.scope import Scope
from crawler.settings import SCOPES


def scope_key(mode: str, entry: str) -> bytes:
    """The META key that keeps an entry of a scope."""
    return f"scope/{mode}/{entry}".encode()


class Scopes:
    """``current`` is the scope of this run; what it took in goes into the next step's batch."""

    def __init__(self, store: Reader, mode: str) -> None:
        self._of_mode = {each: Scope(each) for each in SCOPES}
        self.current = self._of_mode[mode]
        self._new: list[bytes] = []
        prefix = scope_key(mode, "")
        rows = store.scan(Family.META, prefix, prefix[:-1] + b"0")
        self.current.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)

    def widen(self, href: str) -> bool:
        """Take the URL in; True if the scope of this run grew."""
        grown = self.current.widen(href)
        for mode, scope in self._of_mode.items():
            entry = grown if scope is self.current else scope.entry(href)
            if entry is not None:
                self._new.append(scope_key(mode, entry))
        return grown is not None

    def store(self, batch: Batch) -> None:
        """Put what was taken in since the last time into the batch."""
        for key in self._new:
            batch.put(Family.META, key, b"")
        self._new.clear()
