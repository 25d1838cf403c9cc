"""What others may rely on of a job: what is durable here, and in the store of the crawl if it lives in one.

A job recovers by its own disk. What it tells others, such as that a batch has come, must also be there when the disk
is lost.
"""

from __future__ import annotations

import asyncio
from collections import deque

_ENDS = 1_000  # states whose end of the output is kept: one a sync, so as many seconds


class Promises:
    """``durable``: transactions that are here, -1 if a killed process may have left some that are not; ``stored``:
    those that the store of the crawl has, None if there is none."""

    def __init__(self) -> None:
        self.durable = -1
        self.stored: int | None = None
        self._end: int | None = None
        self._ends: deque[tuple[int, int]] = deque(maxlen=_ENDS)  # transactions, and the end of the output after them
        self._moved = asyncio.Event()
        self.waiting = 0  # of those who wait for the store

    @property
    def kept(self) -> int:
        """The transactions that others may rely on."""
        return self.durable if self.stored is None else min(self.durable, self.stored)

    @property
    def end(self) -> int | None:
        """The bytes of the output that others may rely on, which never become fewer; None until there are any."""
        while self._ends and self._ends[0][0] <= self.kept:
            self._end = self._ends.popleft()[1]
        return self._end

    def synced(self, commits: int, end: int) -> None:
        """So many transactions are durable here, and the output that they have."""
        self.durable = commits
        self._ends.append((commits, end))

    def stored_to(self, commits: int) -> None:
        """The store of the crawl has so many transactions."""
        self.stored = commits
        self._moved.set()

    async def reach(self, commits: int) -> None:
        """Wait until the store of the crawl, if there is one, has so many."""
        self.waiting += 1
        try:
            while self.stored is not None and self.stored < commits:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self.waiting -= 1
