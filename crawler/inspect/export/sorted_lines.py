"""Sorts more lines than fit into memory: sorted runs in files, merged when they are read.

Lines are sorted by their bytes, as ``LC_ALL=C sort`` does. Whenever there are ``_FAN`` runs, they are merged into one,
which limits the number of open files.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator
from pathlib import Path

_MEMORY = 2**25  # bytes of lines in memory
_FAN = 64
_BUFFER = 2**17  # bytes of a run read at a time


class SortedLines:
    """Lines that contain one line feed, at the end; added in any order and read in sorted order. ``directory`` must
    exist, and holds the runs; the caller removes it."""

    def __init__(self, directory: Path, memory: int = _MEMORY) -> None:
        self._directory = directory
        self._memory = memory
        self._held: list[bytes] = []
        self._size = 0
        self._runs: list[Path] = []
        self._made = 0

    def add(self, line: bytes) -> None:
        """Add a line. Raises OSError."""
        self._held.append(line)
        self._size += len(line)
        if self._size >= self._memory:
            self._write_run()

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines in sorted order. Raises OSError."""
        with contextlib.ExitStack() as files:
            yield from heapq.merge(*[_opened(run, files) for run in self._runs], sorted(self._held))

    def _write_run(self) -> None:
        self._held.sort()
        self._runs.append(self._written(self._held))
        self._held, self._size = [], 0
        if len(self._runs) == _FAN:
            with contextlib.ExitStack() as files:
                merged = self._written(heapq.merge(*[_opened(run, files) for run in self._runs]))
            for run in self._runs:
                run.unlink()
            self._runs = [merged]

    def _written(self, lines: list[bytes] | Iterator[bytes]) -> Path:
        self._made += 1
        path = self._directory / f"run-{self._made}"
        with open(path, "wb", buffering=_BUFFER) as stream:
            stream.writelines(lines)
        return path


def _opened(run: Path, files: contextlib.ExitStack) -> Iterator[bytes]:
    return files.enter_context(open(run, "rb", buffering=_BUFFER))
