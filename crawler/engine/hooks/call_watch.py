"""Waits for a call of a user function: logs it if it is slow, and gives up at its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from crawler.engine.hooks.answers import CallFailed, NotReturnedError
from crawler.engine.hooks.calls import Call
from crawler.engine.hooks.hook_failures import Hook

T = TypeVar("T")

LONG = 10.0  # seconds after which a call is logged; half of the call's time limit if that is less
START = 600.0  # seconds that a process may take to import the code and its dependencies
_INSTANT = 0.001  # seconds by which clocks may differ


class Steps:
    """The progress of a call that handles several URLs in turn, as reported by the thread of the call."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._clock = asyncio.get_running_loop().time
        self.is_over = False  # True if the call was given up
        self.begin(0)

    def begin(self, number: int) -> None:
        """Record that the call now works on the URL with this number."""
        self.number = number
        self.since = self._clock()

    def each(self, about: Iterable[T]) -> Iterator[T]:
        """Yield each item that the call works on, until the call is given up. The first item has already been
        started."""
        for number, one in enumerate(about):
            if number:
                if self.is_over:
                    return
                self.begin(number)
            yield one

    @property
    def url(self) -> str:
        return self._urls[self.number]

    def left(self, most: float) -> float:
        """Return the seconds until this step has taken ``most`` seconds; 0 if it already has."""
        left = self.since + most - self._clock()
        return left if left > _INSTANT else 0.0


async def outcome_of(call: Call[T], hook: Hook, steps: Steps) -> T:
    """Return the result of a call. Raises CallFailed if it fails, or if one of its steps takes longer than
    ``hook.timeout`` seconds."""
    most = hook.timeout
    try:
        if call.begun is not None:
            await asyncio.wait((call.begun, call.answer), timeout=START, return_when=asyncio.FIRST_COMPLETED)
            if not call.begun.done() and not call.answer.done():
                raise CallFailed(f"the process of {hook.code.name} has not started after {START:g} s")
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
    """Log each slow step of the call."""
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
