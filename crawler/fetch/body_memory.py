"""Bounds the memory that the bodies of all fetches take together.

A body of usual size is not counted. A larger one is, from then until the task that fetched it has ended, so also while
it waits to be parsed and while it is. Beyond the budget nobody reads on: what they are sent waits in their sockets, and
their time limits wait with them. Only if all that counts is still being read may one go on, the one that began first.
So memory is at most the budget, one body more, and a small body for each fetch, whatever many hosts send at once; and
there is always one that gets on.
"""

from __future__ import annotations

import asyncio

SMALL = 512 * 1024  # bytes; few pages are larger


class BodyMemory:
    """What is left of the budget, in bytes."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._complete = 0  # of it, bytes of bodies that were read and are still needed
        self._reading: dict[BodyShare, None] = {}  # in the order in which they began to count
        self._changed = asyncio.Event()

    @property
    def used(self) -> int:
        """Bytes of all bodies that count."""
        return self._used

    def share(self) -> BodyShare:
        """A share for one body. It must be closed."""
        return BodyShare(self)

    def grow(self, share: BodyShare, by: int) -> bool:
        """Count more bytes. Returns whether the share may grow further at once."""
        self._reading.setdefault(share)
        self._used += by
        return self.allows(share)

    def allows(self, share: BodyShare) -> bool:
        """Whether the share may grow."""
        return self._used <= self._budget or (not self._complete and next(iter(self._reading)) is share)

    async def wait(self) -> None:
        """Wait until something was given back, or a body is complete."""
        await self._changed.wait()

    def keep(self, share: BodyShare, size: int) -> None:
        """The body is read, and is needed on."""
        if self._reading.pop(share, share) is None:
            self._complete += size
            self._tell()

    def give_back(self, share: BodyShare, size: int) -> None:
        """Nobody has the body any more."""
        if self._reading.pop(share, share) is share:
            self._complete -= size
        self._used -= size
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class BodyShare:
    """The memory of one body."""

    __slots__ = ("_counted", "_memory")

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._counted = 0

    @property
    def counts(self) -> bool:
        """Whether the body is large enough to count."""
        return self._counted > 0

    def take(self, size: int) -> bool:
        """The body has this many bytes now. Returns whether it may be read on at once; if not, ``wait`` first."""
        if size <= SMALL:
            return True
        by, self._counted = size - self._counted, size
        return self._memory.grow(self, by)

    async def wait(self) -> None:
        """Wait until the body may be read on."""
        while not self._memory.allows(self):
            await self._memory.wait()

    def complete(self) -> None:
        """The body is read; its bytes count on."""
        self._memory.keep(self, self._counted)

    def close(self) -> None:
        """Nobody has the body any more."""
        size, self._counted = self._counted, 0
        if size:
            self._memory.give_back(self, size)
