"""``python -m crawler``."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command named by the process's arguments, and exit with its code."""
    _open_standard_streams()
    # Importing takes a moment. During that time Python would answer Ctrl-C with a traceback.
    mine = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if mine:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from crawler.cli import main  # noqa: PLC0415

    def loaded() -> None:
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        code = main(loaded=loaded)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _open_standard_streams() -> None:
    """Put /dev/null in place of a closed standard stream. Otherwise the next file to be opened would take its number,
    and receive what is meant for the stream."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    run()
