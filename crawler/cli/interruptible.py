"""Runs a coroutine so that an interruption never meets an event loop that is half made.

Python frees such a loop with a traceback on standard error."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler.service.ending_signals import ending_signals

T = TypeVar("T")


def run_interruptible(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """``asyncio.run(make())``; signals that end programs wait until there is a loop. Raises what the coroutine and
    their handlers raise."""
    came: list[int] = []
    # A mask would not do: threads that libraries have started would take the signal.
    with ending_signals(came.append):
        runner = asyncio.Runner()
        runner.get_loop()
    with runner:
        for each in came:
            signal.raise_signal(each)
        return runner.run(make())
