"""Rebuilds a long chain of slices as one slice, from the journal, while the crawl runs.

The journal holds the digest of every URL ever admitted. The compaction copies it in pieces into a larger slice. The
piece that reaches the end of the journal also replaces the chain by that slice. Between two transactions of the crawl
the journal holds exactly the keys of the seen-set, so no key can be missed. A crash only discards the work: the last
generation still has the chain, a later one has the new slice, and the journal can be replayed on either.

The pieces run on the event loop. A thread would disturb the crawl as much, because reading the journal and setting bits
hold the interpreter's lock throughout, and the length of a piece would be unpredictable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawler.base.disk import failpoint
from crawler.base.kv import Family, Reader
from crawler.job.records import DIGEST_SIZE, decode_seen
from crawler.seen.filters import Compactable, FilterError, SeenSet, SuccessorSlice

# A piece takes about a millisecond.
_EVENTS = 256  # events of the journal read at a time
_KEYS = 4_096  # keys put into the slice at a time; the last event of a piece may exceed it


INTERVAL = 0.5  # seconds between two checks of the chain's length
PAUSE = 2.0  # pause, in durations of the last piece: compaction takes at most a third of the loop's time


async def compact_beside(advance: Callable[[], bool]) -> None:
    """Call ``advance`` repeatedly until cancelled. Each call runs one piece of the compaction; it returns False if
    there was none."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        worked = advance()
        await asyncio.sleep(PAUSE * (loop.time() - began) if worked else INTERVAL)


class Compaction:
    """The current compaction, and the decision when to start the next."""

    def __init__(self, seen: SeenSet, store: Reader, slices: int, say: Callable[[str], None]) -> None:
        """``slices``: the number of slices at which a chain is rebuilt; 0 for never. ``say`` is called with error
        messages."""
        self._seen = seen.compactable if slices else None
        self._store = store
        self._slices = slices
        self._say = say
        self._successor: SuccessorSlice | None = None
        self._next = b""

    def advance(self) -> bool:
        """Run a piece; return False if there is nothing to do. Call it only if all transactions are written. Raises
        OSError."""
        seen = self._seen
        if seen is None or (self._successor is None and seen.slices < self._slices):
            return False
        try:
            self._piece(seen)
        except FilterError as problem:
            self._say(f"the seen-set stays a chain of {seen.slices} slices in this run: {problem}")
            self._seen = self._successor = None
        return True

    def _piece(self, seen: Compactable) -> None:
        if self._successor is None:
            self._successor, self._next = seen.successor(), b""
        if not self._successor.touch():
            return
        rows = self._store.scan(Family.ADMITTED, self._next, None, _EVENTS)
        piece: list[bytes] = []
        size = 0
        for _, value in rows:
            piece.append(decode_seen(value)[1])
            size += len(piece[-1])
            if size >= _KEYS * DIGEST_SIZE:
                break
        if size > self._successor.room * DIGEST_SIZE:
            if len(seen) <= self._successor.capacity:
                raise FilterError(f"the journal holds more keys than the {len(seen)} of the seen-set")
            self._successor = None  # the chain has outgrown the new slice: start over with a larger one
            return
        if piece:
            self._successor.put(b"".join(piece))
            self._next = rows[len(piece) - 1][0] + b"\0"
        if len(piece) == len(rows) < _EVENTS:
            seen.succeed(self._successor)
            self._successor = None
            failpoint("compaction.done")
