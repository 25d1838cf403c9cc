"""Bounds the memory that the bodies of all fetches take together.

A body of usual size is not counted. A larger one is, from then until its task has ended, fetches again or says that it
needs it no more, so also while it waits to be parsed and while it is. Beyond the budget nobody reads on: what they are
sent waits in their sockets, and their time limits wait with them. What comes free is for the one that began first,
until it waits no longer: if all got a piece, all would be large and none complete. If all that counts is still being
read, that one may go on beyond the budget. So memory is at most the budget, one body more, and a small body for each
fetch, whatever many hosts send at once; and there is always one that gets on.

Nobody may keep the others waiting by sending slowly: while any waits, those that are read are *hurried*. What they
hold comes free soon, one way or the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Waits = Callable[[], AbstractContextManager[None]]

BUDGET = 64 * 2**20  # bytes of all bodies above SMALL together, while they are read and parsed
SMALL = 512 * 1024  # bytes; few pages are larger
NEXT = 64 * 1024  # bytes that one that has waited adds soon


def _nobody() -> None:
    """Hurries nobody."""


class BodyMemory:
    """What is left of the budget, in bytes."""

    def __init__(self, budget: int, waits: Waits = nullcontext) -> None:
        """Whoever waits does so in a context of ``waits``."""
        self._budget = budget
        self._waits = waits
        self._used = 0
        self._complete = 0  # of it, bytes of bodies that were read and are still needed
        self._reading: dict[BodyShare, None] = {}  # in the order in which they began to count
        self._waiting: dict[BodyShare, asyncio.Future[None]] = {}  # of those
        self._let_on: dict[BodyShare, int] = {}  # of those, waited and have not grown since; what each will add
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
        self._let_go(task)
        return BodyShare(self, hurry)

    def let_go(self) -> None:
        """The running task needs the body that it has read no more."""
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
        """Whether one that began earlier waits."""
        return bool(self._waiting) and self._first_waiting(share) is not share

    def _first_waiting(self, other: BodyShare | None = None) -> BodyShare:
        """The one that began first among those that wait and ``other``."""
        return next(share for share in self._reading if share in self._waiting or share is other)

    async def wait(self, share: BodyShare, given_up: int = 0) -> None:
        """Wait until the share may grow. It counts so many bytes less meanwhile."""
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
        """Let go on whoever may, the one that began first before others."""
        while self._waiting:
            share = self._first_waiting()
            if not self._has_room(share.adds) and not self._may_exceed(share):
                return
            waits = self._waiting.pop(share)
            self._let_on[share] = share.adds
            if not waits.done():
                waits.set_result(None)

    def keep(self, share: BodyShare, size: int) -> None:
        """The body is read, and is needed until its task ends or fetches again."""
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
        """Nobody has the body any more."""
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
        self._begun = False  # it has a place among those that count
        self._counted = 0
        self.adds = SMALL  # bytes, about, that it takes as soon as it may grow
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
        self._begun, self.adds = True, NEXT
        return self._memory.grow(self, by)

    def expect(self) -> bool:
        """The body will be large. Returns whether it may be read at once; if not, ``wait`` first."""
        self._begun = True
        return self._memory.grow(self, 0)

    async def wait(self, *, empty: bool = False) -> None:
        """Wait until the body may be read on. ``empty``: nobody has what was read."""
        given_up = self._counted if empty else 0
        if given_up:
            self.adds, self._counted = given_up, 0
        await self._memory.wait(self, given_up)

    def complete(self) -> None:
        """The body is read; its bytes count until the running task ends, or asks for another share."""
        self.hurry = _nobody
        self._memory.keep(self, self._counted)

    def close(self) -> None:
        """Nobody has the body any more."""
        self.hurry = _nobody  # it may lead back to the owner of this share
        size, self._counted = self._counted, 0
        if self._begun:
            self._begun = False
            self._memory.give_back(self, size)
