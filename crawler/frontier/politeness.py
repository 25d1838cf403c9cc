"""The rules that make a host wait, and the gap between two requests to it. Pure arithmetic: seconds in, seconds out.

If several rules hold a host, the longest hold applies and gives the reason. ``backoff_policy`` has the holds after
failures.
"""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import Self

from crawler.base.settings.parts import PolitenessSettings


class HoldReason(IntEnum):
    """The rule that set a host's next time, in words as shown by ``explain``. The numbers are stored and never
    reused."""

    words: str

    def __new__(cls, number: int, words: str = "") -> Self:
        made = int.__new__(cls, number)
        made._value_, made.words = number, words
        return made

    NONE = 0, "no request so far"
    GAP = 1, "the gap between two requests (politeness.delay)"
    CRAWL_DELAY = 2, "Crawl-delay in robots.txt"
    RETRY_AFTER = 3, "the server's Retry-After"
    BACKOFF = 4, "back-off after 429 or 503"
    ROBOTS_RETRY = 5, "robots.txt could not be fetched and will be retried"
    FAILING = 7, "back-off after a request without a response"
    SNOOZED = 8, "snoozed: repeated requests got no response"
    RETIRED = 9, "retired: no response since it was snoozed"
    BLOCKED = 10, "back-off after a challenge, a denial or a login form"
    ERRORS = 11, "longer pauses after several 5xx responses in a row"
    SITE_RATE = 12, "its turn among the hosts of its [[site]] (rate)"
    HOURS = 13, "outside its hours (politeness.hours)"

    @property
    def is_gap(self) -> bool:
        """True if the rule is only the gap between two requests."""
        return self in _GAPS

    @property
    def holds(self) -> bool:
        """True if the rule is a consequence of what the host did."""
        return HoldReason.RETRY_AFTER <= self <= HoldReason.ERRORS


_GAP = HoldReason.GAP
_GAPS = frozenset((HoldReason.NONE, HoldReason.GAP, HoldReason.CRAWL_DELAY))


def gap(crawl_delay: float | None, settings: PolitenessSettings) -> tuple[float, HoldReason]:
    """Return the seconds between the end of a request to a host and the start of the next, and the rule that sets them.

    This is the longer of ``delay``, and the Crawl-delay up to ``max_crawl_delay``.
    """
    if crawl_delay is not None and (asked := min(crawl_delay, settings.max_crawl_delay)) > settings.delay:
        return asked, HoldReason.CRAWL_DELAY
    return settings.delay, _GAP


def jitter(name: str, number: int) -> float:
    """Return a number in [0, 1) that looks random and is always the same for a name and a number: not drawn at random,
    so that a run can be repeated."""
    digest = blake2b(f"{number} {name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
