"""How long a host is left alone, and which rule says so. Pure arithmetic: seconds in, seconds out.

Of several rules that hold a host the one that holds it longest wins, and is the one that is named.
"""

from __future__ import annotations

from enum import IntEnum

from crawler.frontier.jitter import jitter
from crawler.settings import PolitenessSettings


class HoldReason(IntEnum):
    """The rule that set a host's next time. Stored; numbers are never given a second meaning."""

    NONE = 0
    GAP = 1
    CRAWL_DELAY = 2
    RETRY_AFTER = 3
    BACKOFF = 4
    ROBOTS_RETRY = 5
    ADAPTIVE = 6
    FAILING = 7
    SNOOZED = 8
    RETIRED = 9

    @property
    def words(self) -> str:
        """The rule as a reader of ``explain`` sees it."""
        return _WORDS[self]

    @property
    def is_gap(self) -> bool:
        """Whether it only parts two requests; the others hold a host for a reason of its own."""
        return self in _GAPS


_WORDS = {
    HoldReason.NONE: "no request so far",
    HoldReason.GAP: "the gap between two requests (politeness.delay)",
    HoldReason.CRAWL_DELAY: "Crawl-delay in robots.txt",
    HoldReason.RETRY_AFTER: "the server's Retry-After",
    HoldReason.BACKOFF: "back-off after 429 or 503",
    HoldReason.ROBOTS_RETRY: "robots.txt could not be fetched and is asked for again",
    HoldReason.ADAPTIVE: "the gap of a slow server (politeness.adaptive)",
    HoldReason.FAILING: "back-off after a request without an answer",
    HoldReason.SNOOZED: "snoozed: it gave no answer again and again",
    HoldReason.RETIRED: "retired: it was snoozed and gave no answer since",
}
_GAP = HoldReason.GAP
_GAPS = frozenset((HoldReason.NONE, HoldReason.GAP, HoldReason.CRAWL_DELAY, HoldReason.ADAPTIVE))


def gap(crawl_delay: float | None, latency: float | None, settings: PolitenessSettings) -> tuple[float, HoldReason]:
    """Seconds between the end of a request to a host and the start of the next, and the rule that asks for it:
    the longest of ``delay``, the Crawl-delay up to ``max_crawl_delay``, and ``adaptive`` times the host's response time
    within ``adaptive_min`` and ``adaptive_max``."""
    longest, rule = settings.delay, _GAP
    if settings.adaptive and latency is not None:
        own = min(max(settings.adaptive * latency, settings.adaptive_min), settings.adaptive_max)
        if own > longest:
            longest, rule = own, HoldReason.ADAPTIVE
    if crawl_delay is not None:
        asked = min(crawl_delay, settings.max_crawl_delay)
        if asked > longest:
            return asked, HoldReason.CRAWL_DELAY
    return longest, rule


def hold_after_throttle(
    retry_after: float | None, level: int, settings: PolitenessSettings, host: str
) -> tuple[float, HoldReason]:
    """Seconds a host is held after 429 or 503: what it asks for, else the back-off after ``level`` such answers in a
    row before."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), settings.max_retry_after), HoldReason.RETRY_AFTER
    return _doubled(settings.backoff_first, level, settings.backoff_max, settings.jitter, host), HoldReason.BACKOFF


def hold_after_failure(failures_in_a_row: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Seconds a host is held after a number of requests in a row without an answer."""
    return _doubled(
        settings.backoff_first, failures_in_a_row - 1, settings.backoff_max, settings.jitter, host
    ), HoldReason.FAILING


def snooze(snoozes: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Seconds of the ``snoozes``-th snooze in a row (1 for the first)."""
    return _doubled(settings.snooze_first, snoozes - 1, settings.snooze_max, settings.jitter, host), HoldReason.SNOOZED


def longest_hold(settings: PolitenessSettings) -> float:
    """No rule but the gap holds a host for longer than this many seconds."""
    return max(settings.max_retry_after, max(settings.backoff_max, settings.snooze_max) * (1 + settings.jitter))


def _doubled(first: float, times: int, most: float, most_jitter: float, host: str) -> float:
    # 2**64 seconds is beyond any maximum; the exponent is cut so that a float cannot overflow.
    return min(first * 2.0 ** min(times, 64), most) * (1 + most_jitter * jitter(host, times))
