"""``python -m crawler``."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn, TextIO, cast

from crawler.service.ending_signals import ENDING, INTERRUPTED, quit_at_once, say_no_result

_TRACEBACK = 0.2  # seconds that a reader gets to read the traceback of a bug


def run() -> NoReturn:
    """Run the command named by the process's arguments, and exit with its code."""
    # Install these handlers first: during the imports, SIGTERM would kill the process and Ctrl-C would print a
    # traceback.
    ours = [each for each in ENDING if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler)]
    for number in ours:
        signal.signal(number, _quit)
    _open_standard_streams()
    gc.disable()  # imports create no garbage, but the collector would scan their objects repeatedly
    # The threads of OpenBLAS spin while they wait for work, and nothing here gives them any.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from crawler.base.named_stream import NamedStream  # noqa: PLC0415
    from crawler.base.printable import PrintableStream  # noqa: PLC0415
    from crawler.base.queued_stream import QueuedStream, wait_for_reader  # noqa: PLC0415
    from crawler.cli import main  # noqa: PLC0415

    error = sys.stderr
    sys.stdout, sys.stderr = PrintableStream(NamedStream(sys.stdout)), PrintableStream(error)

    def loaded(quits_at_once: bool, serves: bool) -> None:
        gc.freeze()
        gc.enable()
        if serves:
            sys.stderr = PrintableStream(cast("TextIO", QueuedStream(error)))
            atexit.register(wait_for_reader, sys.stderr, _TRACEBACK)  # a traceback is the last output
        if quits_at_once:
            return
        for number in ours:  # SIGINT first: the other handlers raise it
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _interrupt)

    try:
        try:
            code = main(loaded=loaded)
        except KeyboardInterrupt:
            code = INTERRUPTED
        _ignore(ours)
    except KeyboardInterrupt:  # the signal came after the last step of the command
        code = INTERRUPTED
        _ignore(ours)
    if code == INTERRUPTED:
        say_no_result()
    sys.exit(code)


def _ignore(numbers: list[signal.Signals]) -> None:
    """Ignore these signals: none may change the exit code while the interpreter shuts down."""
    for number in reversed(numbers):  # SIGINT last: the other handlers raise it
        signal.signal(number, signal.SIG_IGN)


def _quit(number: int, frame: FrameType | None) -> NoReturn:
    """Exit at once."""
    quit_at_once("" if "--quiet" in sys.argv else "interrupted; run the same command again")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt the program as Ctrl-C does, or exit at once if SIGINT is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        _quit(number, frame)
    signal.raise_signal(signal.SIGINT)


def _open_standard_streams() -> None:
    """Put /dev/null in place of a closed standard stream. Otherwise the next file that is opened would get the stream's
    file descriptor, and receive what is meant for the stream."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # With --json, a result that cannot be written is an error.
            fd = os.open(os.devnull, os.O_RDONLY if number == 1 and "--json" in sys.argv else os.O_RDWR)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    run()
