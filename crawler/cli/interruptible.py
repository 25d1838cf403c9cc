"""Runs a coroutine so that an interruption at any moment ends the program exactly as Ctrl-C does.

``asyncio.run`` alone does not: Python destroys a half-created loop with a traceback on standard error, and
``asyncio.Runner`` turns an interruption just before the coroutine starts into a CancelledError.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler.service.ending_signals import ENDING, ending_signals, quit_at_once

T = TypeVar("T")


def run_interruptible(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine ``make()`` as ``asyncio.run`` does; an ending signal cancels the coroutine. Once the loop is
    closed, the signals are raised again for the caller's handlers, unless the cancelled coroutine still returned a
    result or raised an error. A second SIGINT ends the process at once. Raises the errors of the coroutine and of the
    handlers, and KeyboardInterrupt if the coroutine was cancelled by a signal whose handler raises nothing."""
    interruption = _Interruption()
    try:
        # A signal mask would not suffice: threads started by libraries would receive the signal. A Runner keeps an
        # existing handler for SIGINT.
        with ending_signals(interruption.handle, quit_at_once), asyncio.Runner() as runner:
            result = runner.run(interruption.cancelling(make))
    except asyncio.CancelledError:
        interruption.pass_on()
        if interruption.came:
            raise KeyboardInterrupt from None
        raise
    if not interruption.taken:
        interruption.pass_on()
    return result


class _Interruption:
    """Collects signals. ``came`` holds the numbers received; ``taken`` is True once they have cancelled the
    coroutine."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.taken = False
        self._ignored = {number for number in ENDING if signal.getsignal(number) is signal.SIG_IGN}
        self._cancel: Callable[[], object] | None = None  # set while the coroutine exists

    def handle(self, number: int) -> None:
        """Handle a signal, which may arrive between any two steps of the main thread."""
        if number in self._ignored:
            return
        self.came.append(number)
        if self._cancel is not None:
            self._cancel()

    async def cancelling(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the coroutine, which is not created if a signal has already arrived."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            if not self.taken:  # a second cancellation would interrupt the cleanup after the first
                self.taken = task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)  # wakes a waiting loop
        try:
            if self.came:
                raise asyncio.CancelledError
            return await make()
        finally:
            self._cancel = None

    def pass_on(self) -> None:
        """Raise the received signals again, for the caller's handlers."""
        for number in self.came:
            signal.raise_signal(number)
