"""How often a URL is retried after a failure, and after which waits. Pure: it takes and returns seconds."""

from __future__ import annotations

from crawler.base.settings.parts import RetrySettings
from crawler.frontier.politeness import jitter
from crawler.frontier.request_outcome import FailureClass

_GROWTH = 4.0  # factor between two successive waits
_JITTER = 0.1  # maximum relative jitter of a wait, so that URLs that failed together do not return together
_ONCE = frozenset(  # TLS that fails once fails again: a certificate is not renewed within minutes
    (FailureClass.TLS, FailureClass.PROTOCOL, FailureClass.OTHER, FailureClass.INTERNAL)
)


def tries_of(failure: FailureClass, settings: RetrySettings) -> int:
    """Return the total number of tries of a URL, including the first, if its failures are of this class."""
    if failure in _ONCE:
        return 1
    # With 429 and 503 the server is up and asks for patience: each further try counts as three.
    return min(3 * settings.tries - 2, 255) if failure is FailureClass.THROTTLED else settings.tries


def retry_wait(tries: int, settings: RetrySettings, name: str) -> float:
    """Return the seconds until the next try of a URL after its ``tries``-th failure (1 for the first).

    This is ``first_wait``, four times as long after each further failure, up to ``max_wait``. Deterministic jitter by
    ``name`` adds at most a tenth.
    """
    wait = min(settings.first_wait * _GROWTH ** min(tries - 1, 64), settings.max_wait)
    return wait * (1 + _JITTER * jitter(name, tries))


def waits_left(tries: int, most: int, settings: RetrySettings, name: str) -> list[float]:
    """Return the waits of a URL after its next try if all tries fail: ``tries`` did so far, of at most ``most``."""
    return [retry_wait(number, settings, name) for number in range(tries + 1, most)]


def longest_retry(settings: RetrySettings) -> float:
    """Return the longest time that any URL waits for its next try, in seconds."""
    return settings.max_wait * (1 + _JITTER)
