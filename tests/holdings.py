"""What a carrier holds, and how a server loses it."""

from __future__ import annotations

from collections.abc import Iterable

from crawler.base.carrier.memory_carrier import ENTRY_COST, Holdings


class LosingHoldings(Holdings):
    """Holdings that a test can lose."""

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Lose everything of these names, or of all names."""
        for name in list(self._streams | self._values) if names is None else names:
            self._claims.pop(name, None)
            lost = self._streams.pop(name, None)
            if lost is not None:
                self._bytes -= sum(map(len, lost.entries)) + ENTRY_COST * len(lost.entries)
            self._orders.pop(name, None)
            for key, value in self._values.pop(name, {}).items():
                self._bytes -= len(value) + ENTRY_COST + len(key)

    def forget_end(self, stream: str, entries: int) -> None:
        """Lose the last ``entries`` entries, like a server that died before writing them.

        All positions of the stream become unknown.
        """
        if stream not in self._streams:
            return
        old = self._streams.pop(stream)
        kept = old.entries[: max(0, len(old.entries) - entries)]
        lost = old.entries[len(kept) :]
        self._bytes -= sum(map(len, lost)) + ENTRY_COST * len(lost)
        new = self._stream(stream)
        new.entries, new.epochs = kept, old.epochs
