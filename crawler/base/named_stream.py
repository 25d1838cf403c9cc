"""Errors of standard output that name it: the message of the system names no file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

STANDARD_OUTPUT = "standard output"


@contextlib.contextmanager
def naming(name: str = STANDARD_OUTPUT) -> Iterator[None]:
    """Let an OSError of the block name what it was about, unless it names a file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), name) from error


class NamedStream:
    """A stream whose errors of writing have a name, and that is another one in everything else."""

    def __init__(self, stream: Any, name: str = STANDARD_OUTPUT) -> None:
        self._stream = stream
        self._name = name

    @property
    def buffer(self) -> NamedStream:
        return NamedStream(self._stream.buffer, self._name)

    def write(self, data: Any) -> int:
        with naming(self._name):
            return int(self._stream.write(data))

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with naming(self._name):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
