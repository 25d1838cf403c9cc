"""Runs a coroutine so that an interruption never meets an event loop that is half made.

Python frees such a loop with a traceback on standard error."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_interruptible(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """``asyncio.run(make())``; signals that have a handler wait for it until there is a loop. Raises what the coroutine
    and the handlers raise."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    # A mask would not do: threads that libraries have started would take the signal.
    before = {number: signal.signal(number, note) for number in _SIGNALS if callable(signal.getsignal(number))}
    try:
        runner = asyncio.Runner()
        runner.get_loop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    with runner:
        for each in came:
            signal.raise_signal(each)
        return runner.run(make())
