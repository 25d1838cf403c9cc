"""Full disks: the only disk errors that may be transient, until there is space again."""

from __future__ import annotations

import errno
import os

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def no_room(error: OSError) -> str:
    """Return the reason for an error in ``FULL``.

    It contains no file name, because the dashboard shows the text and the name would be a path of this machine.
    """
    return os.strerror(error.errno or errno.ENOSPC)
