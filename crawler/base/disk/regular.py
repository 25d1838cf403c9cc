"""Opens files: those whose names come from the configuration without ever blocking, own ones for their owner only.

Opening a pipe blocks until there is a writer, and a device may have no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def check_regular(path: Path) -> None:
    """Raise OSError at once unless the path names a regular file."""
    _check(os.stat(path).st_mode, path)


def read_regular(path: Path, most: int = -1) -> bytes:
    """Return the content of a regular file, or its first ``most`` bytes. Raises OSError at once for anything else."""
    with open_regular(path) as stream:
        return stream.read(most)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError at once for anything else."""
    check_regular(path)  # before opening it, which would wake the writer of a pipe
    stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 (for the caller)
    try:
        _check(os.fstat(stream.fileno()).st_mode, path)  # it may have been replaced in between
    except OSError:
        stream.close()
        raise
    return stream


def _check(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


# A job contains the secret of its digests, the user's pages, and private addresses. Files and directories that the
# program creates in it are therefore private, regardless of the umask. To share a job, its user changes the modes.
PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    """Create a directory and, with ``parents``, its parents with their usual mode.

    The mode of an existing directory is not changed. Raises OSError.
    """
    path.mkdir(PRIVATE_DIRECTORY, parents=parents, exist_ok=exist_ok)


def private_opener(path: str, flags: int) -> int:
    """The ``opener`` of ``open`` for a file that may have to be created."""
    return os.open(path, flags, PRIVATE_FILE)
