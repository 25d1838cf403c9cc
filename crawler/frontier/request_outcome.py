"""What came of a request: the few classes of failure by which a host is judged, and when a URL is tried again."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from crawler.frontier.jitter import jitter
from crawler.settings import RetrySettings


class FailureClass(IntEnum):
    """A class of failure. Stored; numbers are never given a second meaning."""

    DNS = 0  # the name has no address, or no name server answered
    REFUSED = 1  # nobody listens
    UNREACHABLE = 2  # no route
    TLS = 3
    TIMEOUT = 4  # no connection, headers or body in time
    CUT_OFF = 5  # closed before the response was complete
    SERVER_ERROR = 6  # a 5xx that may pass
    THROTTLED = 7  # 429 or 503
    PROTOCOL = 8  # not HTTP
    OTHER = 9  # one of our own limits, an encoding that cannot be undone

    @property
    def word(self) -> str:
        """The class as tables and JSON name it."""
        return self.name.lower()

    @property
    def unanswered(self) -> bool:
        """Whether the host gave no answer at all: it counts towards being snoozed."""
        return self in _UNANSWERED

    @property
    def timed(self) -> bool:
        """Whether the seconds it took say something of how fast the host answers."""
        return self not in _UNTIMED


_UNTIMED = frozenset(
    (FailureClass.DNS, FailureClass.REFUSED, FailureClass.UNREACHABLE, FailureClass.TLS, FailureClass.OTHER)
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


class RequestOutcome(NamedTuple):
    """What a request cost and came to, as far as its host is concerned: the ``seconds`` of the whole exchange, the
    ``size`` in bytes of the body as far as it was read, ``failure`` None when it was answered, and for how many seconds
    the host asked to be left alone (``retry_after``), if it did."""

    seconds: float = 0.0
    size: int = 0
    failure: FailureClass | None = None
    retry_after: float | None = None


ANSWERED = RequestOutcome()


def tries_of(failure: FailureClass, settings: RetrySettings) -> int:
    """How often a URL is asked in all, the first time included, while its failures are of this class."""
    if failure in (FailureClass.PROTOCOL, FailureClass.OTHER):
        return 1
    own: int | None = getattr(settings, f"{failure.word}_tries", None)
    return settings.tries if own is None else own


def retry_wait(failure: FailureClass, tries: int, settings: RetrySettings, name: str) -> float:
    """Seconds before a URL is tried again after its ``tries``-th failure (1 for the first), the last of this class:
    the class's first wait, ``growth`` times as long after each further failure, at most ``max_wait``; then up to
    ``jitter`` of that on top, spread over the URLs (``name``)."""
    own: float | None = getattr(settings, f"{failure.word}_wait", None)
    first = settings.first_wait if own is None else own
    wait = min(first * settings.growth ** min(tries - 1, 64), settings.max_wait)
    return wait * (1 + settings.jitter * jitter(name, tries))


def longest_retry(settings: RetrySettings) -> float:
    """No URL waits longer for its next try."""
    return settings.max_wait * (1 + settings.jitter)
