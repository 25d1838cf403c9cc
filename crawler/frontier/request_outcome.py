"""The outcome of a request, and the classes of failure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class FailureClass(IntEnum):
    """A class of failure. The numbers are stored and never reused."""

    DNS = 0  # the name has no address, or no name server responded
    REFUSED = 1  # nothing listens on the port
    UNREACHABLE = 2  # no route
    TLS = 3
    TIMEOUT = 4  # no connection, headers or body within the limit
    CUT_OFF = 5  # the connection was closed before the response was complete
    SERVER_ERROR = 6  # a 5xx that may be transient
    THROTTLED = 7  # 429 or 503
    PROTOCOL = 8  # not HTTP
    OTHER = 9  # a limit of the crawler was exceeded, or the content encoding cannot be decoded
    INTERNAL = 10  # the host responded, but the crawler could not read the response: a bug
    PROXY = 11  # no request reached the host, so the host is not to blame
    BLOCKED = 12  # a challenge or a denial instead of the page, with a success status
    LOGIN = 13  # a login form instead of the page

    @property
    def word(self) -> str:
        """The name of the class in tables and JSON."""
        return self.name.lower()

    @property
    def unanswered(self) -> bool:
        """True if the host gave no response, which counts towards snoozing it."""
        return self in _UNANSWERED

    @property
    def timed(self) -> bool:
        """True if the duration of the request shows how fast the host responds."""
        return self not in _UNTIMED


_NOT_CONNECTED = frozenset((FailureClass.DNS, FailureClass.REFUSED, FailureClass.UNREACHABLE, FailureClass.TLS))
_UNTIMED = _NOT_CONNECTED | {FailureClass.OTHER, FailureClass.PROXY}
_UNANSWERED = _NOT_CONNECTED | {FailureClass.TIMEOUT, FailureClass.CUT_OFF, FailureClass.PROTOCOL}


class HostResult(IntEnum):
    """The result of a host's finished URLs, the best last. The numbers are stored and never reused."""

    NOTHING = 0  # no URL has finished
    EXCLUDED = 1  # excluded by a rule, a limit or the user
    ROBOTS = 2  # disallowed by robots.txt
    FAILED = 3  # no response, or none to the request for robots.txt
    SERVER_ERROR = 4
    THROTTLED = 5
    CLIENT_ERROR = 6
    BLOCKED = 7  # a challenge, a denial or a login form
    PAGE = 8  # at least one page was fetched, or a redirect


class RequestOutcome(NamedTuple):
    """The outcome of a request for its host.

    ``seconds`` is the duration of the whole exchange. ``size`` is the number of bytes read of the body. ``failure`` is
    None if the host responded. ``retry_after`` is the wait in seconds that the server requested, if any. ``kept`` is
    True if a reused connection was closed before the first byte of a response.
    """

    seconds: float = 0.0
    size: int = 0
    failure: FailureClass | None = None
    retry_after: float | None = None
    kept: bool = False


ANSWERED = RequestOutcome()
