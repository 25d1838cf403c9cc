"""How long a host is left alone, and which rule says so. Pure arithmetic: seconds in, seconds out."""

from __future__ import annotations

from enum import IntEnum

from crawler.settings import PolitenessSettings, RetrySettings


class Rule(IntEnum):
    """The rule that set a host's next time. Stored; numbers are never given a second meaning."""

    NONE = 0
    GAP = 1
    CRAWL_DELAY = 2
    RETRY_AFTER = 3
    BACKOFF = 4
    ROBOTS_RETRY = 5

    @property
    def words(self) -> str:
        """The rule as a reader of ``explain`` sees it."""
        return _WORDS[self]


_WORDS = {
    Rule.NONE: "no request was made yet",
    Rule.GAP: "the gap between two requests (politeness.delay)",
    Rule.CRAWL_DELAY: "Crawl-delay in robots.txt",
    Rule.RETRY_AFTER: "the server's Retry-After",
    Rule.BACKOFF: "back-off after 429 or 503",
    Rule.ROBOTS_RETRY: "robots.txt could not be had and is asked again",
}


def gap(crawl_delay: float | None, settings: PolitenessSettings) -> tuple[float, Rule]:
    """Seconds between two requests to a host, and whether the setting or robots.txt asked for the longer one."""
    if crawl_delay is not None:
        asked = min(crawl_delay, settings.max_crawl_delay)
        if asked > settings.delay:
            return asked, Rule.CRAWL_DELAY
    return settings.delay, Rule.GAP


def hold_after_throttle(retry_after: float | None, level: int, settings: PolitenessSettings) -> tuple[float, Rule]:
    """Seconds a host is held after 429 or 503: what it asks for, else ``backoff_first`` doubled ``level`` times."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), settings.max_retry_after), Rule.RETRY_AFTER
    # 2**64 seconds is beyond any maximum; the exponent is cut so that a float cannot overflow.
    return min(settings.backoff_first * 2.0 ** min(level, 64), settings.backoff_max), Rule.BACKOFF


def retry_wait(tries: int, settings: RetrySettings) -> float:
    """Seconds before a URL is asked again after its ``tries``-th transient failure (1 for the first)."""
    return min(settings.first_wait * settings.growth ** min(tries - 1, 64), settings.max_wait)
