"""Files that a crawl writes but can do without: a failure is reported and never ends the crawl."""

from __future__ import annotations

import errno
import logging
import os
from types import TracebackType

log = logging.getLogger("crawler")

# The only disk errors that may be transient, until there is space again.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# A full disk pauses the crawl, and a missing directory ends it: the crawl reports both itself.
_TOLD_BY_CRAWL = FULL | {errno.ENOENT}
# Transient errors: a failed operation succeeds when it is retried later.
PASSING = FULL | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def no_room(error: OSError) -> str:
    """Return the reason for an error in ``FULL``.

    It contains no file name, because the dashboard shows the text and the name would be a path of this machine.
    """
    return os.strerror(error.errno or errno.ENOSPC)


class Expendable:
    """Files that nothing depends on.

    As a context manager it catches every OSError of the block, and reports only the first of several consecutive
    failures. It does not report a full disk or a missing directory, because the crawl itself does.
    """

    def __init__(self, name: str) -> None:
        """``name`` identifies the files in messages."""
        self._name = name
        self._fails = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self.succeed()
        elif isinstance(error, OSError):
            self.fail(error)
            return True
        return False

    def succeed(self) -> None:
        """Record a success, so that the next failure is reported again."""
        self._fails = False

    def fail(self, error: OSError) -> None:
        """Report a failure that was caught elsewhere."""
        if not self._fails and error.errno not in _TOLD_BY_CRAWL:
            self._fails = True
            log.warning("%s: %s; the crawl continues without it", self._name, error.strerror or error)
