"""Waiting for a call of a function of the user: it is named if it takes long, and given up if it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from crawler.engine.hooks.answers import CallFailed, NotReturnedError
from crawler.engine.hooks.calls import Call
from crawler.engine.hooks.hook import Hook

LONG = 10.0  # seconds after which a call is named, or half of those that it may take
START = 600.0  # seconds for a process that imports the code, with all that it loads
_INSTANT = 0.001  # seconds that clocks may be apart
T = TypeVar("T")


class Steps:
    """Where a call is that is about several URLs, one after the other. Its own thread says so."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._clock = asyncio.get_running_loop().time
        self.is_over = False  # nobody waits for the call any more
        self.begin(0)

    def begin(self, number: int) -> None:
        """The call is about this one of the URLs now."""
        self.number = number
        self.since = self._clock()

    @property
    def url(self) -> str:
        return self._urls[self.number]

    def left(self, most: float) -> float:
        """Seconds until this step has taken ``most``; 0 if it has."""
        left = self.since + most - self._clock()
        return left if left > _INSTANT else 0.0


async def outcome_of(call: Call[T], hook: Hook, steps: Steps) -> T:
    """What a call returns, if none of its steps takes more than ``hook.timeout`` seconds. Raises CallFailed."""
    most = hook.timeout
    try:
        if call.begun is not None:
            await asyncio.wait((call.begun, call.answer), timeout=START, return_when=asyncio.FIRST_COMPLETED)
            if not call.begun.done() and not call.answer.done():
                raise CallFailed(f"the process of {hook.code.name} has not begun after {START:g} s")
            steps.begin(0)
        with _watched(call, hook, steps, most):
            while not call.answer.done():
                left = None if most is None else steps.left(most)
                if left == 0.0:
                    break
                await asyncio.wait((call.answer,), timeout=left)
        if call.answer.done():
            return call.answer.result()
        place = call.place()
        where = "" if place is None else f"{place}: "
        raise NotReturnedError(f"{where}{hook.code.name} has not returned after {most:g} s")
    finally:
        if not call.answer.done():
            steps.is_over = True
            call.abandon()


@contextmanager
def _watched(call: Call[T], hook: Hook, steps: Steps, most: float | None) -> Iterator[None]:
    """Name each step of the call that takes long."""
    figures, loop, seconds = hook.figures, asyncio.get_running_loop(), LONG if most is None else min(LONG, most / 2)
    named: int | None = None
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal named, timer
        if named is not None and named != steps.number:
            named = None
            figures.hanging -= 1
        left = steps.left(seconds)
        if named is None and left == 0.0:
            named = steps.number
            figures.hanging += 1
            hook.takes_long(steps.url, seconds, call.place())
        timer = loop.call_later(left or seconds, look)

    timer = loop.call_later(seconds, look)
    try:
        yield
    finally:
        timer.cancel()
        figures.hanging -= named is not None
