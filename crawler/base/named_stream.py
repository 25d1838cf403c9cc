"""Adds a name to errors that do not name their file or stream, such as those of standard output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any

STANDARD_OUTPUT = "standard output"


class Naming:
    """Add a name to an OSError that is raised in this context, unless the error already names a file."""

    def __init__(self, name: str = STANDARD_OUTPUT) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), self._name) from error


class NamedStream:
    """A proxy for a stream that adds the stream's name to write errors."""

    def __init__(self, stream: Any, name: str = STANDARD_OUTPUT) -> None:
        self._stream = stream
        self._name = name

    @property
    def buffer(self) -> NamedStream:
        return NamedStream(self._stream.buffer, self._name)

    def write(self, data: Any) -> int:
        with Naming(self._name):
            return int(self._stream.write(data))

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with Naming(self._name):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
