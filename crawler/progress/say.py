"""Lines for a reader that may have gone away."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TextIO

# What writing to a pipe without a reader, and to a terminal that was closed, ends with.
_GONE = frozenset({errno.EPIPE, errno.EIO})


@contextlib.contextmanager
def watched(stream: TextIO) -> Iterator[None]:
    """In the block, the reader of ``stream`` may go away: that must not stop a crawl. What is
    written later goes nowhere. Any other error is raised."""
    try:
        yield
    except OSError as error:
        if error.errno not in _GONE:
            raise
        turn_away(stream)


def say(stream: TextIO, text: str) -> None:
    """Write a line; a reader that has gone away is no error."""
    with watched(stream):
        stream.write(text + "\n")
        stream.flush()


def turn_away(stream: TextIO) -> None:
    """What is written to ``stream`` from now on goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
