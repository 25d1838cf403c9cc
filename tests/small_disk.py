"""A file system of a few megabytes in memory, to be really full."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACH = 2  # umount2(2): MNT_DETACH, for what a killed process may still hold
_PAGE = 4_096


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, path: Path, options: str) -> None:
        self.path = path
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._mount(options)
        self._filler = path / "fill"
        self._filler.touch()
        self._files = path / "files"
        self._files.mkdir()

    def fill(self) -> None:
        """Leave no page of room."""
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(_PAGE))

    def take_inodes(self) -> None:
        """Leave no room for a new file, but for the bytes of those that are there."""
        with contextlib.suppress(OSError):
            for number in itertools.count():
                (self._files / str(number)).touch()

    def leave(self, size: int) -> None:
        """Give back so many bytes of a disk that is filled."""
        os.truncate(self._filler, max(0, self._filler.stat().st_size - size))

    def free(self) -> None:
        """Give back all that was taken."""
        os.truncate(self._filler, 0)
        for path in self._files.iterdir():
            path.unlink()

    def _mount(self, options: str) -> None:
        if self._libc.mount(b"tmpfs", os.fsencode(self.path), b"tmpfs", 0, options.encode()):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def unmount(self) -> None:
        self._libc.umount2(os.fsencode(self.path), _DETACH)


@contextmanager
def small_disk(path: Path, megabytes: int, inodes: int = 0) -> Iterator[SmallDisk]:
    """One at ``path``, with at most so many files where ``inodes`` are given; skips where the kernel forbids it."""
    path.mkdir()
    try:
        disk = SmallDisk(path, f"size={megabytes}m,nr_inodes={inodes}")
    except OSError as error:
        pytest.skip(f"a file system cannot be mounted here: {error.strerror}")
    try:
        yield disk
    finally:
        disk.unmount()
