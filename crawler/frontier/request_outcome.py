"""The outcome of a request: the classes of failure, and the tries and waits that follow from them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from crawler.base.settings.parts import RetrySettings
from crawler.frontier.jitter import jitter


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
_GROWTH = 4.0  # of a wait for the next try, over the one before
_JITTER = 0.1  # of a wait, at most: URLs that failed together do not come back together
_ONCE = frozenset(  # TLS that fails once fails again: a certificate is not renewed within minutes
    (FailureClass.TLS, FailureClass.PROTOCOL, FailureClass.OTHER, FailureClass.INTERNAL)
)


def tries_of(failure: FailureClass, settings: RetrySettings) -> int:
    """How many tries a URL has in all, including the first, if its failures are of this class."""
    if failure in _ONCE:
        return 1
    # 429 and 503: the server is there, and asks for patience. Each further try is three there.
    return min(3 * settings.tries - 2, 255) if failure is FailureClass.THROTTLED else settings.tries


def retry_wait(tries: int, settings: RetrySettings, name: str) -> float:
    """Seconds until the next try of a URL whose ``tries``-th failure (1 for the first) this was: ``first_wait``, and
    four times as long after each further one, up to ``max_wait``.
    Deterministic jitter by ``name`` adds a tenth at most."""
    wait = min(settings.first_wait * _GROWTH ** min(tries - 1, 64), settings.max_wait)
    return wait * (1 + _JITTER * jitter(name, tries))


def longest_retry(settings: RetrySettings) -> float:
    """The longest wait of any URL for its next try, in seconds."""
    return settings.max_wait * (1 + _JITTER)
