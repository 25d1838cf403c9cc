"""The outcome of a request, and the classes of failure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class FailureClass(IntEnum):
    """A class of failure. The numbers are stored and never reused."""

    DNS = 0  # the name has no address, or no name server answered
    REFUSED = 1  # nothing listens on the port
    UNREACHABLE = 2  # no route
    TLS = 3
    TIMEOUT = 4  # no connection, headers or body in time
    CUT_OFF = 5  # closed before the response was complete
    SERVER_ERROR = 6  # a 5xx that may pass
    THROTTLED = 7  # 429 or 503
    PROTOCOL = 8  # not HTTP
    OTHER = 9  # a limit of the crawler, a content encoding that cannot be decoded
    INTERNAL = 10  # the host answered, but the crawler could not read the answer: a bug
    PROXY = 11  # no request reached the host: says nothing about it
    BLOCKED = 12  # a challenge or a denial instead of the page, with a good status
    LOGIN = 13  # a form to log in instead of the page

    @property
    def word(self) -> str:
        """The name of the class in tables and JSON."""
        return self.name.lower()

    @property
    def unanswered(self) -> bool:
        """Whether the host gave no answer at all: it counts towards being snoozed."""
        return self in _UNANSWERED

    @property
    def timed(self) -> bool:
        """Whether the duration of the request says how fast the host answers."""
        return self not in _UNTIMED


_UNTIMED = frozenset(
    (
        FailureClass.DNS,
        FailureClass.REFUSED,
        FailureClass.UNREACHABLE,
        FailureClass.TLS,
        FailureClass.OTHER,
        FailureClass.PROXY,
    )
)
_UNANSWERED = frozenset(
    (
        FailureClass.DNS,
        FailureClass.REFUSED,
        FailureClass.UNREACHABLE,
        FailureClass.TLS,
        FailureClass.TIMEOUT,
        FailureClass.CUT_OFF,
        FailureClass.PROTOCOL,
    )
)


class HostResult(IntEnum):
    """What the finished URLs of a host have given, the best last. The numbers are stored and never reused."""

    NOTHING = 0  # none is finished
    EXCLUDED = 1  # by a rule, a limit or the user
    ROBOTS = 2  # disallowed by robots.txt
    FAILED = 3  # no answer, or none to the request for robots.txt
    SERVER_ERROR = 4
    THROTTLED = 5
    CLIENT_ERROR = 6
    BLOCKED = 7  # a challenge, a denial or a form to log in
    PAGE = 8  # or a redirect


class RequestOutcome(NamedTuple):
    """What a request means for its host. ``seconds``: duration of the whole exchange. ``size``: bytes of the body that
    were read. ``failure``: None if the host answered. ``retry_after``: the seconds that the server asked the crawler to
    wait, if it did. ``kept``: a connection that had been used before was closed before the first byte of an answer."""

    seconds: float = 0.0
    size: int = 0
    failure: FailureClass | None = None
    retry_after: float | None = None
    kept: bool = False


ANSWERED = RequestOutcome()
