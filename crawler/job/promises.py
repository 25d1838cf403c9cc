"""The state of a job on which others may rely: durable on its disk, and stored in the bucket of the crawl if it has
one.

A job recovers from its own disk. Facts that it reports to others, for example that a batch has arrived, must survive
the loss of that disk.
"""

from __future__ import annotations

import asyncio
from collections import deque

_ENDS = 1_000  # number of output ends kept: one per sync, so as many seconds


class Promises:
    """``durable``: number of transactions that are durable here, -1 if a killed process may have left some that are
    not; ``stored``: number of transactions in the store of the crawl, None if it has none."""

    def __init__(self) -> None:
        self.durable = -1
        self.stored: int | None = None
        self._end: int | None = None
        self._ends: deque[tuple[int, int]] = deque(maxlen=_ENDS)  # number of transactions, end of the output after them
        self._moved = asyncio.Event()
        self.waiting = 0  # number of callers that wait for the store

    @property
    def kept(self) -> int:
        """The number of transactions on which others may rely."""
        return self.durable if self.stored is None else min(self.durable, self.stored)

    @property
    def end(self) -> int | None:
        """The bytes of the output on which others may rely, which never decrease; None until there are any."""
        while self._ends and self._ends[0][0] <= self.kept:
            self._end = self._ends.popleft()[1]
        return self._end

    def synced(self, commits: int, end: int) -> None:
        """Record that ``commits`` transactions are durable here, with the output up to ``end``."""
        self.durable = commits
        self._ends.append((commits, end))

    def stored_to(self, commits: int) -> None:
        """Record that the store of the crawl has ``commits`` transactions."""
        self.stored = commits
        self._moved.set()

    async def reach(self, commits: int) -> None:
        """Wait until the store of the crawl, if there is one, has ``commits`` transactions."""
        self.waiting += 1
        try:
            while self.stored is not None and self.stored < commits:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self.waiting -= 1
