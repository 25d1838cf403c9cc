"""The signals that end programs: SIGINT (Ctrl-C), SIGTERM and SIGHUP.

This module is imported before all others, so that signals are handled from the start. It therefore imports only modules
that load fast.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
_LAST_LINES = 0.1  # seconds to wait until earlier lines are written
_NO_RESULT = b'{"error": "interrupted", "exit": %d}\n' % INTERRUPTED
_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def ending_signals(handle: Callable[[int], object], again: Callable[[], object] | None = None) -> Iterator[None]:
    """Return a context in which ``handle`` is called with the number of each ending signal, between two steps of the
    main thread. A second SIGINT calls ``again``, if given, which ends the process.

    ``loop.add_signal_handler`` is not used: just after its removal, a signal would kill the process. This context
    restores the earlier handlers immediately."""

    interrupted = False

    def call(number: int, _: FrameType | None) -> None:
        nonlocal interrupted
        if number == signal.SIGINT and interrupted and again is not None:
            again()
        interrupted = interrupted or number == signal.SIGINT
        handle(number)

    # A process under nohup ignores SIGHUP, and must continue to ignore it.
    handled = [each for each in ENDING if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, call) for number in handled}
    try:
        yield
    finally:
        # SIGINT is restored last: its handler may raise, and then all others have been restored.
        for number, handler in reversed(before.items()):
            signal.signal(number, handler)


@contextmanager
def interruption() -> Iterator[int]:
    """Yield a descriptor that the first ending signal makes readable, so that no signal interrupts a block of work
    half-way. A second SIGINT raises KeyboardInterrupt."""

    def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    fd, write = os.pipe()
    try:
        with ending_signals(lambda _: os.write(write, b"!"), interrupt):
            yield fd
    finally:
        os.close(fd)
        os.close(write)


def stopping_signals(
    loop: AbstractEventLoop, stop: Callable[[], object], quitting: Callable[[], object] = bool
) -> AbstractContextManager[None]:
    """Return a context in which an ending signal makes the loop call ``stop``, which shuts the crawl down cleanly. A
    second SIGINT calls ``quitting`` and ends the process immediately; the journal holds all unsaved changes."""

    def stopped(number: int) -> None:
        import logging  # noqa: PLC0415, slow to import

        if number == signal.SIGINT:
            logging.getLogger("crawler").warning(
                "interrupted: finishing requests in flight; press Ctrl-C again to quit now"
            )
        stop()

    def quit_now() -> None:
        quitting()
        quit_at_once("quit; run the same command to resume")

    return ending_signals(lambda number: loop.call_soon_threadsafe(stopped, number), quit_now)


def quit_at_once(line: str = "") -> NoReturn:
    """End the process now, like SIGKILL; all data written so far is kept. Writes ``line``, if given, to standard error,
    unless its reader has stalled."""
    try:
        say_no_result()
        if sys.stderr is not None:  # None: closed, and its descriptor may belong to another file
            if drain := getattr(sys.stderr, "drain", None):
                drain(_LAST_LINES)
            shown = _SHOW_CURSOR if os.isatty(2) else ""
            said = shown + (line and f"crawler: {line}\n")
            if said and select.select((), (2,), (), 0)[1]:
                os.write(2, said.encode())
    finally:
        os._exit(INTERRUPTED)


def say_no_result() -> None:
    """With ``--json``, report the interruption as JSON, unless the result has already been written or its reader has
    stalled."""
    if "--json" in sys.argv:
        with suppress(OSError):
            for to in getattr(sys.modules.get("crawler.base.say"), "result_to", (1,)):
                if select.select((), (to,), (), 0)[1]:
                    os.write(to, _NO_RESULT)
