"""A disk that is full may have room again; any other error of a disk does not pass by itself."""

from __future__ import annotations

import errno
import os

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def no_room(error: OSError) -> str:
    """Why nothing can be written, for one of ``FULL``. Without the name of a file, which would be a path of this
    machine: the dashboard shows it."""
    return os.strerror(error.errno or errno.ENOSPC)
