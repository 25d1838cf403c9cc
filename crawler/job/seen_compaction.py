"""A long chain of slices rebuilt as one, from the journal, beside the running crawl.

The journal keeps the digest of every URL ever admitted. A piece of it at a time is put into a larger slice, and when
the end of the journal is reached that slice takes the chain's place, in the same piece: between two steps of the crawl
the journal holds exactly the keys that the seen-set holds, so none can come in between. A crash throws the work away
and nothing else: the generation before it has the chain, one after it the new slice, and the journal continues either.

The pieces are done on the event loop. A thread would be no less in the way: reading the journal and setting bits both
hold the interpreter's lock from beginning to end, and a piece's length would then be a matter of luck.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawler.disk import failpoint
from crawler.filters import Compactable, FilterError, SeenSet, Successor
from crawler.kv import Family, Reader
from crawler.records import DIGEST_SIZE, decode_seen

# A piece takes about a millisecond.
_EVENTS = 256  # of the journal, read at a time
_KEYS = 4_096  # put into the slice at a time, but for the rest of an event


INTERVAL = 0.25  # seconds between two looks whether the chain is long
PAUSE = 2.0  # times as long as the piece before it: a third of the loop's time at most goes into compaction


async def compact_beside(advance: Callable[[], bool]) -> None:
    """Call ``advance``, which does a piece and says whether there was one to do, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        worked = advance()
        await asyncio.sleep(PAUSE * (loop.time() - began) if worked else INTERVAL)


class Compaction:
    """The present one, and when to begin the next."""

    def __init__(self, seen: SeenSet, store: Reader, slices: int, say: Callable[[str], None]) -> None:
        """``slices``: how long a chain may be before it is rebuilt; 0 for never. ``say`` hears of what went wrong."""
        self._seen = seen.compactable if slices else None
        self._store = store
        self._slices = slices
        self._say = say
        self._successor: Successor | None = None
        self._next = b""

    def advance(self) -> bool:
        """Do a piece; False when there is nothing to do for now. To be called between two steps of the crawl that are
        written. Raises OSError."""
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
                raise FilterError(f"the journal holds more than its {len(seen)} keys")
            self._successor = None  # the chain outgrew it: there must be a larger one
            return
        if piece:
            self._successor.put(b"".join(piece))
            self._next = rows[len(piece) - 1][0] + b"\0"
        if len(piece) == len(rows) < _EVENTS:
            seen.succeed(self._successor)
            self._successor = None
            failpoint("compaction.done")
