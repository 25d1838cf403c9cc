"""How often a URL is tried again after a failure, and after which waits. Pure: seconds in, seconds out."""

from __future__ import annotations

from crawler.base.settings.parts import RetrySettings
from crawler.frontier.jitter import jitter
from crawler.frontier.request_outcome import FailureClass

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
