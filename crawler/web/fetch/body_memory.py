"""Bounds the total memory of the bodies of all fetches.

Bodies of usual size are not counted. A larger body counts until its task ends, fetches again or releases it; so it
still counts while it waits for the parser and is parsed. Beyond the budget, reading stops: further data waits in the
sockets, and the time limits are suspended. Freed memory goes only to the waiting body that started first: if each
waiting body got a part, all would grow and none would be completed. If all counted bodies are still being read, the
first of them may exceed the budget. So one body can always progress, and the memory used is at most the budget, one
more body, and a small body for each fetch, however much all hosts send at once.

A slow sender must not block the others: while any body waits, those being read are *hurried*. Their memory is freed
soon, whether they complete or time out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Waits = Callable[[], AbstractContextManager[None]]

BUDGET = 64 * 2**20  # bytes of all bodies above SMALL together, while they are read and parsed
SMALL = 512 * 1024  # bytes; few pages are larger
NEXT = 64 * 1024  # bytes that a body is expected to add soon after its wait


def _nobody() -> None:
    """Do nothing: the default callback."""


class BodyMemory:
    """Tracks the budget and the bodies that use it. Sizes are in bytes."""

    def __init__(self, budget: int, waits: Waits = nullcontext) -> None:
        """``waits`` returns the context in which a body waits."""
        self._budget = budget
        self._waits = waits
        self._used = 0
        self._complete = 0  # the part of ``_used`` for bodies that have been read and are still needed
        self._reading: dict[BodyShare, None] = {}  # shares, in the order in which they started to count
        self._waiting: dict[BodyShare, asyncio.Future[None]] = {}  # the shares in ``_reading`` that wait
        self._let_on: dict[BodyShare, int] = {}  # shares that may grow after a wait, and by how much
        self._kept: dict[asyncio.Task[object], BodyShare | None] = {}  # unfinished task -> share of the body it keeps

    @property
    def used(self) -> int:
        """The bytes of all counted bodies."""
        return self._used

    def share(self, hurry: Callable[[], None] = _nobody) -> BodyShare:
        """Return a share for a body of the running task, and release the task's earlier body. The share must be closed
        or completed. ``hurry`` is called, perhaps several times, if other bodies wait for memory while this one is
        read."""
        task = asyncio.current_task()
        assert task is not None
        self._let_go(task)
        return BodyShare(self, hurry)

    def let_go(self) -> None:
        """Release the last body of the running task."""
        task = asyncio.current_task()
        assert task is not None
        self._let_go(task)

    def _let_go(self, task: asyncio.Task[object]) -> None:
        earlier = self._kept.get(task)
        if earlier is not None:
            self._kept[task] = None
            earlier.close()

    def grow(self, share: BodyShare, by: int) -> bool:
        """Count more bytes. Returns whether the share may grow further at once."""
        self._reading.setdefault(share)
        self._let_on.pop(share, None)
        self._used += by
        return self._may_exceed(share) or (self._has_room(0) and not self._overtakes(share))

    def _has_room(self, size: int) -> bool:
        return self._used + sum(self._let_on.values()) + size <= self._budget

    def _may_exceed(self, share: BodyShare) -> bool:
        return not self._complete and next(iter(self._reading)) is share

    def _overtakes(self, share: BodyShare) -> bool:
        """Return whether another body, which started earlier, is waiting."""
        return bool(self._waiting) and self._first_waiting(share) is not share

    def _first_waiting(self, other: BodyShare | None = None) -> BodyShare:
        """Return the share that started first among the waiting ones and ``other``."""
        return next(share for share in self._reading if share in self._waiting or share is other)

    async def wait(self, share: BodyShare, given_up: int = 0) -> None:
        """Wait until the share may grow. While it waits, ``given_up`` of its bytes are not counted."""
        self._used -= given_up
        waits = self._waiting[share] = asyncio.get_running_loop().create_future()
        try:
            for other in self._reading:
                if other not in self._waiting:
                    other.hurry()
            self._let_go_on()
            with self._waits():
                await waits
        finally:
            self._waiting.pop(share, None)
        if self._waiting:
            share.hurry()

    def _let_go_on(self) -> None:
        """End the waits of all shares that may grow, the oldest first."""
        while self._waiting:
            share = self._first_waiting()
            if not self._has_room(share.adds) and not self._may_exceed(share):
                return
            waits = self._waiting.pop(share)
            self._let_on[share] = share.adds
            if not waits.done():
                waits.set_result(None)

    def keep(self, share: BodyShare, size: int) -> None:
        """Keep counting a body that has been read, until its task ends or fetches again."""
        task = asyncio.current_task()
        assert task is not None
        if task not in self._kept:
            task.add_done_callback(self._over)
        self._kept[task] = share
        if self._reading.pop(share, share) is None:
            self._let_on.pop(share, None)
            self._complete += size
            self._let_go_on()

    def give_back(self, share: BodyShare, size: int) -> None:
        """Release the memory of a body that is not needed."""
        if self._reading.pop(share, share) is share:
            self._complete -= size
        self._let_on.pop(share, None)
        self._used -= size
        self._let_go_on()

    def _over(self, task: asyncio.Task[object]) -> None:
        share = self._kept.pop(task)
        if share is not None:
            share.close()


class BodyShare:
    """The memory of one body."""

    __slots__ = ("_begun", "_counted", "_memory", "adds", "hurry")

    def __init__(self, memory: BodyMemory, hurry: Callable[[], None]) -> None:
        self._memory = memory
        self._begun = False  # True if it has a place in the order of counted bodies
        self._counted = 0
        self.adds = SMALL  # approximate bytes that it takes as soon as it may grow
        self.hurry = hurry

    @property
    def counts(self) -> bool:
        """True if the body is large enough to count."""
        return self._counted > 0

    def take(self, size: int) -> bool:
        """Set the size of the body. Returns whether reading may continue at once; if not, ``wait`` first."""
        if size <= SMALL:
            return True
        by, self._counted = size - self._counted, size
        self._begun, self.adds = True, NEXT
        return self._memory.grow(self, by)

    def expect(self) -> bool:
        """Announce a large body. Returns whether it may be read at once; if not, ``wait`` first."""
        self._begun = True
        return self._memory.grow(self, 0)

    async def wait(self, *, empty: bool = False) -> None:
        """Wait until reading may continue. ``empty``: the bytes that were read have been dropped."""
        given_up = self._counted if empty else 0
        if given_up:
            self.adds, self._counted = given_up, 0
        await self._memory.wait(self, given_up)

    def complete(self) -> None:
        """Record that the body has been read; its bytes count until the running task ends or gets another share."""
        self.hurry = _nobody
        self._memory.keep(self, self._counted)

    def close(self) -> None:
        """Release the body."""
        self.hurry = _nobody  # it may hold a reference to the owner of this share
        size, self._counted = self._counted, 0
        if self._begun:
            self._begun = False
            self._memory.give_back(self, size)
