"""Files and directories that only their owner may read.

A job holds the secret of its digests, the pages of its user, and addresses that are nobody else's business. So what the
program makes in it is private, whatever the umask says. To share a job, its user changes the modes.
"""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    """Make a directory, and with ``parents`` those above it with their usual mode. Raises OSError. The mode of one that
    exists is not changed."""
    path.mkdir(PRIVATE_DIRECTORY, parents=parents, exist_ok=exist_ok)


def private_opener(path: str, flags: int) -> int:
    """The ``opener`` of ``open`` for a file that may have to be made."""
    return os.open(path, flags, PRIVATE_FILE)
