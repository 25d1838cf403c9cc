"""What a server loses that wrote the last entries of a stream nowhere when it died."""

from __future__ import annotations

from crawler.base.carrier.memory_carrier import _ENTRY_COST, Holdings


def forget_end(holdings: Holdings, stream: str, entries: int) -> None:
    """Lose so many of the entries that were appended last. No position of the stream is known any more."""
    if stream not in holdings._streams:
        return
    old = holdings._streams.pop(stream)
    kept = old.entries[: max(0, len(old.entries) - entries)]
    lost = old.entries[len(kept) :]
    holdings._bytes -= sum(map(len, lost)) + _ENTRY_COST * len(lost)
    new = holdings._stream(stream)
    new.entries, new.epochs = kept, old.epochs
