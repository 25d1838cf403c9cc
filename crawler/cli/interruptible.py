"""Runs a coroutine so that an interruption at any moment ends the program as Ctrl-C does, and in no other way.

``asyncio.run`` alone does not: Python frees a loop that is half made with a traceback on standard error; and of an
interruption that comes just before the coroutine begins, ``asyncio.Runner`` makes a CancelledError."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler.service.ending_signals import ENDING, ending_signals, quit_at_once

T = TypeVar("T")


def run_interruptible(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """``asyncio.run(make())``. Signals that end programs cancel the coroutine. They are raised again for the handlers
    of the caller once there is no loop any more, unless the coroutine was cancelled and has a result or an error
    nonetheless. A second SIGINT ends the process at once. Raises what the coroutine and the handlers raise, and
    KeyboardInterrupt if it was cancelled by a signal whose handler raises nothing."""
    interruption = _Interruption()
    try:
        # A mask would not do: threads that libraries have started would take the signal.
        with ending_signals(interruption.handle), asyncio.Runner() as runner:  # which leaves SIGINT to that
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
    """What has come of signals. ``came`` are their numbers; ``taken``: they have cancelled the coroutine."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.taken = False
        self._ignored = {number for number in ENDING if signal.getsignal(number) is signal.SIG_IGN}
        self._cancel: Callable[[], object] | None = None  # while the coroutine is there

    def handle(self, number: int) -> None:
        """A signal has come, between any two steps of the main thread."""
        if number in self._ignored:
            return
        if number == signal.SIGINT and number in self.came:
            quit_at_once()
        self.came.append(number)
        if self._cancel is not None:
            self._cancel()

    async def cancelling(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the coroutine returns. It is not made if a signal has come by then."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            if not self.taken:  # one more would break off what it does at its end
                self.taken = task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)  # wakes a loop that waits
        try:
            if self.came:
                raise asyncio.CancelledError
            return await make()
        finally:
            self._cancel = None

    def pass_on(self) -> None:
        """Raise the signals again."""
        for number in self.came:
            signal.raise_signal(number)
