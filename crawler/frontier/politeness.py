"""How long a host must wait, and the rule that says so. Pure arithmetic: seconds in, seconds out.

If several rules hold a host, the longest hold wins and gives the reason.
"""

from __future__ import annotations

from enum import IntEnum

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.jitter import jitter


class HoldReason(IntEnum):
    """The rule that set a host's next time. The numbers are stored and never reused."""

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
    BLOCKED = 10
    ERRORS = 11
    SITE_RATE = 12
    HOURS = 13

    @property
    def words(self) -> str:
        """The rule in the words of ``explain``."""
        return _WORDS[self]

    @property
    def is_gap(self) -> bool:
        """Whether the rule is only the gap between two requests."""
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
    HoldReason.BLOCKED: "back-off after a page that bars the crawler from others",
    HoldReason.ERRORS: "longer pauses after several 5xx answers in a row (politeness.errors_max)",
    HoldReason.HOURS: "outside its hours (politeness.hours)",
    HoldReason.SITE_RATE: "its turn among the hosts of its [[site]] (rate)",
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
    """Seconds a host is held after 429 or 503, and the rule: ``retry_after`` if the server named it, else a back-off
    that doubles with ``level``, the number of such answers in a row before this one."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), settings.max_retry_after), HoldReason.RETRY_AFTER
    return _doubled(settings.backoff_first, level, settings.backoff_max, settings.jitter, host), HoldReason.BACKOFF


def hold_after_errors(
    errors_in_a_row: int, own_gap: float, settings: PolitenessSettings
) -> tuple[float, HoldReason] | None:
    """Seconds a host with the gap ``own_gap`` is held after ``errors_in_a_row`` answers 5xx, and the rule. One is
    nothing; from the second on the gap doubles."""
    if errors_in_a_row < 2 or not settings.errors_max:
        return None
    longest = max(own_gap, settings.errors_min) * 2.0 ** min(errors_in_a_row - 1, 64)
    return min(longest, settings.errors_max), HoldReason.ERRORS


def hold_after_failure(failures_in_a_row: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Seconds a host is held after ``failures_in_a_row`` requests without an answer, and the rule."""
    return _doubled(
        settings.backoff_first, failures_in_a_row - 1, settings.backoff_max, settings.jitter, host
    ), HoldReason.FAILING


def snooze(snoozes: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Seconds of the ``snoozes``-th snooze in a row (1 for the first), and the rule."""
    return _doubled(settings.snooze_first, snoozes - 1, settings.snooze_max, settings.jitter, host), HoldReason.SNOOZED


def longest_hold(settings: PolitenessSettings) -> float:
    """The longest hold of any rule but the gap, in seconds."""
    doubling = max(settings.backoff_max, settings.snooze_max)
    return max(settings.max_retry_after, settings.errors_max, doubling * (1 + settings.jitter))


def _doubled(first: float, times: int, most: float, most_jitter: float, host: str) -> float:
    # 2**64 seconds exceeds any maximum. The cap of the exponent prevents a float overflow.
    return min(first * 2.0 ** min(times, 64), most) * (1 + most_jitter * jitter(host, times))
