"""Waiting for a call of a function of the user: it is named if it takes long, and given up if it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from crawler.hooks.answers import CallFailed
from crawler.hooks.calls import Call
from crawler.hooks.hook import Hook

LONG = 10.0  # seconds after which a call is named, or half of those that it may take
START = 600.0  # seconds for a process that imports the code, with all that it loads
T = TypeVar("T")


async def outcome_of(call: Call[T], hook: Hook, url: str, most: float | None) -> T:
    """What a call that is about the URL returns, if it does within ``most`` seconds. Raises CallFailed."""
    try:
        if call.begun is not None:
            await asyncio.wait((call.begun, call.answer), timeout=START, return_when=asyncio.FIRST_COMPLETED)
            if not call.begun.done() and not call.answer.done():
                raise CallFailed(f"the process of {hook.code.name} has not begun after {START:g} s")
        with _watched(call, hook, url, most):
            done, _ = await asyncio.wait((call.answer,), timeout=most)
        if done:
            return call.answer.result()
        place = call.place()
        where = "" if place is None else f"{place}: "
        raise CallFailed(f"{where}{hook.code.name} has not returned after {most:g} s")
    finally:
        if not call.answer.done():
            call.abandon()


@contextmanager
def _watched(call: Call[T], hook: Hook, url: str, most: float | None) -> Iterator[None]:
    """Name the call if it takes long."""
    figures, named, seconds = hook.figures, 0, LONG if most is None else min(LONG, most / 2)

    def name() -> None:
        nonlocal named
        named = 1
        figures.hanging += 1
        hook.takes_long(url, seconds, call.place())

    timer = asyncio.get_running_loop().call_later(seconds, name)
    try:
        yield
    finally:
        timer.cancel()
        figures.hanging -= named
