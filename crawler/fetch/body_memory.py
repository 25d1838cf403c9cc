"""Bounds the memory that the bodies of all fetches take together.

A body of usual size is not counted. A larger one is, from then until its task has ended or fetches again, so also while
it waits to be parsed and while it is. Beyond the budget nobody reads on: what they are sent waits in their sockets, and
their time limits wait with them. Only if all that counts is still being read may one go on, the one that began first.
So memory is at most the budget, one body more, and a small body for each fetch, whatever many hosts send at once; and
there is always one that gets on.

Nobody may keep the others waiting by sending slowly: while any waits, those that are read are *hurried*. What they
hold comes free soon, one way or the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SMALL = 512 * 1024  # bytes; few pages are larger


def _nobody() -> None:
    """Hurries nobody."""


class BodyMemory:
    """What is left of the budget, in bytes."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._complete = 0  # of it, bytes of bodies that were read and are still needed
        self._reading: dict[BodyShare, None] = {}  # in the order in which they began to count
        self._waiting: set[BodyShare] = set()  # of those
        self._changed = asyncio.Event()
        self._kept: dict[asyncio.Task[object], BodyShare | None] = {}  # by tasks that are not over

    @property
    def used(self) -> int:
        """Bytes of all bodies that count."""
        return self._used

    def share(self, hurry: Callable[[], None] = _nobody) -> BodyShare:
        """A share for one body of the running task, which needs no earlier one any more. It must be closed, or kept.
        ``hurry`` is called, perhaps several times, if others wait for what the body takes while it is read."""
        task = asyncio.current_task()
        assert task is not None
        earlier = self._kept.get(task)
        if earlier is not None:
            self._kept[task] = None
            earlier.close()
        return BodyShare(self, hurry)

    def grow(self, share: BodyShare, by: int) -> bool:
        """Count more bytes. Returns whether the share may grow further at once."""
        self._reading.setdefault(share)
        self._used += by
        return self._allows(share)

    def _allows(self, share: BodyShare) -> bool:
        return self._used <= self._budget or (not self._complete and next(iter(self._reading)) is share)

    async def wait(self, share: BodyShare) -> None:
        """Wait until the share may grow."""
        self._waiting.add(share)
        try:
            for other in self._reading:
                if other not in self._waiting:
                    other.hurry()
            while not self._allows(share):
                await self._changed.wait()
        finally:
            self._waiting.discard(share)
        if self._waiting:
            share.hurry()

    def keep(self, share: BodyShare, size: int) -> None:
        """The body is read, and is needed until its task ends or fetches again."""
        task = asyncio.current_task()
        assert task is not None
        if task not in self._kept:
            task.add_done_callback(self._over)
        self._kept[task] = share
        if self._reading.pop(share, share) is None:
            self._complete += size
            self._tell()

    def give_back(self, share: BodyShare, size: int) -> None:
        """Nobody has the body any more."""
        if self._reading.pop(share, share) is share:
            self._complete -= size
        self._used -= size
        self._tell()

    def _over(self, task: asyncio.Task[object]) -> None:
        share = self._kept.pop(task)
        if share is not None:
            share.close()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class BodyShare:
    """The memory of one body."""

    __slots__ = ("_counted", "_memory", "hurry")

    def __init__(self, memory: BodyMemory, hurry: Callable[[], None]) -> None:
        self._memory = memory
        self._counted = 0
        self.hurry = hurry

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
        await self._memory.wait(self)

    def complete(self) -> None:
        """The body is read; its bytes count until the running task ends, or asks for another share."""
        self.hurry = _nobody
        self._memory.keep(self, self._counted)

    def close(self) -> None:
        """Nobody has the body any more."""
        self.hurry = _nobody  # it may lead back to the owner of this share
        size, self._counted = self._counted, 0
        if size:
            self._memory.give_back(self, size)
