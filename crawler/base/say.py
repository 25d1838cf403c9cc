"""Writes lines for a reader that may disappear."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TextIO

from crawler.base.disk import FULL

# Errors of writing to a pipe without a reader, and to a closed terminal.
_GONE = frozenset({errno.EPIPE, errno.EIO})


@contextlib.contextmanager
def watched(stream: TextIO) -> Iterator[None]:
    """Let the reader of ``stream`` disappear inside the block without stopping the crawl; later output is discarded.

    Output that does not fit on a full disk is lost, or written later. Any other error is raised.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            return
        if error.errno not in _GONE:
            raise
        turn_away(stream)


def say(stream: TextIO, text: str) -> None:
    """Write a line. A reader that has disappeared is not an error."""
    with watched(stream):
        stream.write(text + "\n")
        stream.flush()


def turn_away(stream: TextIO) -> None:
    """Discard all further output to ``stream``."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
