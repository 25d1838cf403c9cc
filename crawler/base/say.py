"""Writes lines for a reader that may disappear."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from crawler.base.disk import FULL
from crawler.base.named_stream import Naming

# Errors raised by writing to a pipe without a reader, or to a closed terminal.
_GONE = frozenset({errno.EPIPE, errno.EIO})
# The descriptor for the result: a copy once ``keep_stdout`` has reserved standard output; none once the result is
# written.
result_to = [1]


@contextlib.contextmanager
def watched(stream: TextIO) -> Iterator[None]:
    """Let the crawl continue if the reader of ``stream`` disappears during the block; later output is discarded.

    Output that does not fit on a full disk is either lost or written later. All other errors are raised.
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


def keep_stdout() -> int:
    """Reserve standard output for the result, and return a descriptor for it. All other output from now on, such as
    that of user code and the programs it starts, goes to standard error."""
    result_to[:] = [os.dup(sys.stdout.fileno())]
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return result_to[0]


def say_json(value: Mapping[str, Any]) -> None:
    """Write an object as one line to standard output, even if standard output is reserved. Raises OSError."""
    with Naming(), open(result_to.pop() if result_to else 1, "w", encoding="utf-8", closefd=False) as stream:
        stream.write(json.dumps(value) + "\n")
