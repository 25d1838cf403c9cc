"""Files and directories that only their owner may read.

A job contains the secret of its digests, the user's pages, and private addresses. Files and directories that the
program creates in it are therefore private, regardless of the umask. To share a job, its user changes the modes.
"""

from __future__ import annotations

import os
from pathlib import Path

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
