"""Controls the fault injector: builds ``injector.c``, and tells a program that runs under it which calls must fail."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

SOURCE = Path(__file__).with_suffix(".c")
# In the order of the enumeration in injector.c.
KINDS = (
    "write",
    "pwrite",
    "fsync",
    "fdatasync",
    "open",
    "rename",
    "ftruncate",
    "fallocate",
    "mkdir",
    "link",
    "unlink",
    "mmap",
    "read",
)
FOR_EVER = 2**63


class _Control(ctypes.LittleEndianStructure):
    _fields_ = (
        ("armed", ctypes.c_uint64),
        ("kinds", ctypes.c_uint64),
        ("error", ctypes.c_uint64),
        ("halve", ctypes.c_uint64),
        ("lie", ctypes.c_uint64),
        ("first", ctypes.c_uint64),
        ("last", ctypes.c_uint64),
        ("delay", ctypes.c_uint64),
        ("clock", ctypes.c_int64),
        ("only", ctypes.c_char * 64),
        ("matched", ctypes.c_uint64),
        ("hit", ctypes.c_uint64),
        ("calls", ctypes.c_uint64 * len(KINDS)),
    )


def build(directory: Path, source: Path = SOURCE) -> Path:
    """Compile it, or another library, there. Raises FileNotFoundError where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("gcc is missing: apt-get install gcc libc6-dev")
    made = directory / source.with_suffix(".so").name
    words = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(made), str(source), "-ldl"]
    subprocess.run(words, check=True)
    return made


class Injector:
    """Faults of one program's calls on files below ``directory``; ``control`` is a file outside of it."""

    def __init__(self, library: Path, control: Path, directory: Path) -> None:
        control.write_bytes(bytes(ctypes.sizeof(_Control)))
        with control.open("r+b") as stream:
            self._shared = mmap.mmap(stream.fileno(), 0)
        self._told = _Control.from_buffer(self._shared)
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "FAULTS_CONTROL": str(control),
            "FAULTS_BELOW": str(directory.resolve()),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._told
        self._shared.close()

    def arm(
        self,
        kinds: Iterable[str],
        error: int,
        *,
        first: int = 1,
        last: int = FOR_EVER,
        halve: bool = False,
        lie: bool = False,
        delay: float = 0.0,
        only: str = "",
    ) -> None:
        """From now on, of the calls of these kinds, those numbered ``first`` to ``last`` fail with ``error``; 0 fails
        none.

        ``halve`` cuts the first of them; with ``lie`` an fsync says that it did what it did not; ``delay`` makes each
        last that many seconds longer; ``only`` is a part of the file's path.
        """
        told = self._told
        told.armed = 0
        told.kinds = sum(1 << KINDS.index(kind) for kind in kinds)
        told.error, told.halve, told.lie = error, halve, lie
        told.first, told.last, told.delay, told.only = first, last, round(delay * 1e6), only.encode()
        told.matched = told.hit = 0
        told.armed = 1

    def heal(self) -> None:
        self._told.armed = 0

    def set_clock(self, seconds: float) -> None:
        """How far the wall clock is from the right time."""
        self._told.clock = round(seconds * 1e9)

    @property
    def hit(self) -> int:
        """Calls that were spoilt since ``arm``."""
        return int(self._told.hit)

    def calls(self) -> dict[str, int]:
        """Calls on the directory, spoilt or not, since the file was made."""
        return dict(zip(KINDS, map(int, self._told.calls), strict=True))
