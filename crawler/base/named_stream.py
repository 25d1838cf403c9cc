"""Adds a name to errors whose system message contains none, such as those of standard output."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

STANDARD_OUTPUT = "standard output"


@contextlib.contextmanager
def naming(name: str = STANDARD_OUTPUT) -> Iterator[None]:
    """Add a name to an OSError raised in the block, unless it names a file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), name) from error


class NamedStream:
    """Proxy stream that names itself in write errors."""

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
