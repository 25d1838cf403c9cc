"""How long a host must wait, and the rule behind it. Pure arithmetic: seconds in, seconds out.

If several rules hold a host, the longest hold applies and gives the reason.
"""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple, Self

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


_GAP = HoldReason.GAP

JITTER = 0.1  # maximum relative jitter of a hold, so that hosts that failed together do not return together
# In multiples of the first back-off (``politeness.backoff_first``). In brackets: the times for its default, 5 seconds.
_BACKOFF_MOST = 120  # (10 minutes)
_SNOOZE_FIRST, _SNOOZE_MOST = 12, 720  # (a minute to an hour)
_ERRORS_LEAST, _ERRORS_MOST = 0.1, 12  # (half a second to a minute) pauses after 5xx responses


class Patience(NamedTuple):
    """How many chances failing hosts get. With 0, hosts are never snoozed, or never retired, for that reason."""

    snooze_after: int  # requests in a row without a response
    retire_after: int  # snoozes in a row
    retire_throttled: int  # 429 or 503 responses in a row
    retry_after_most: float  # seconds; a larger Retry-After is cut to this


PATIENCE = {
    "usual": Patience(5, 3, 100, 3_600.0),  # 8 minutes without a response; 16 hours of back-off
    "short": Patience(3, 2, 6, 30.0),  # for runs that the user waits for
    "endless": Patience(0, 0, 0, 3_600.0),
}
_GAPS = frozenset((HoldReason.NONE, HoldReason.GAP, HoldReason.CRAWL_DELAY))


def gap(crawl_delay: float | None, settings: PolitenessSettings) -> tuple[float, HoldReason]:
    """Return the seconds between the end of a request to a host and the start of the next, and the rule that sets them.

    This is the longer of ``delay``, and the Crawl-delay up to ``max_crawl_delay``.
    """
    if crawl_delay is not None and (asked := min(crawl_delay, settings.max_crawl_delay)) > settings.delay:
        return asked, HoldReason.CRAWL_DELAY
    return settings.delay, _GAP


def hold_after_throttle(
    retry_after: float | None, level: int, settings: PolitenessSettings, host: str
) -> tuple[float, HoldReason]:
    """Return the seconds a host is held after 429 or 503, and the rule.

    This is ``retry_after`` if the server sent it, else a back-off that doubles with ``level``, the number of such
    responses in a row before this one.
    """
    if retry_after is not None:
        return cut_retry_after(retry_after, settings), HoldReason.RETRY_AFTER
    return _backed_off(level, settings, host), HoldReason.BACKOFF


def cut_retry_after(seconds: float, settings: PolitenessSettings) -> float:
    """Return the wait that the server requested, cut to the longest one that is obeyed."""
    return min(max(seconds, 0.0), PATIENCE[settings.patience].retry_after_most)


def hold_after_errors(
    errors_in_a_row: int, own_gap: float, settings: PolitenessSettings
) -> tuple[float, HoldReason] | None:
    """Return the seconds a host with the gap ``own_gap`` is held after ``errors_in_a_row`` 5xx responses, and the rule.

    A single error has no effect; from the second on the gap doubles.
    """
    if errors_in_a_row < 2:
        return None
    least, most = _ERRORS_LEAST * settings.backoff_first, _ERRORS_MOST * settings.backoff_first
    return min(max(own_gap, least) * 2.0 ** min(errors_in_a_row - 1, 64), most), HoldReason.ERRORS


def hold_after_failure(failures_in_a_row: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Return the seconds a host is held after ``failures_in_a_row`` requests without a response, and the rule."""
    wait = _backed_off(failures_in_a_row - 1, settings, host)
    return wait, HoldReason.FAILING


def snooze(snoozes: int, settings: PolitenessSettings, host: str) -> tuple[float, HoldReason]:
    """Return the seconds of the ``snoozes``-th snooze in a row (1 for the first), and the rule."""
    unit = settings.backoff_first
    return _doubled(_SNOOZE_FIRST * unit, snoozes - 1, _SNOOZE_MOST * unit, host), HoldReason.SNOOZED


def longest_hold(settings: PolitenessSettings) -> float:
    """Return the longest hold of any rule but the gap, in seconds."""
    return max(PATIENCE[settings.patience].retry_after_most, _SNOOZE_MOST * settings.backoff_first * (1 + JITTER))


def _backed_off(times: int, settings: PolitenessSettings, host: str) -> float:
    return _doubled(settings.backoff_first, times, _BACKOFF_MOST * settings.backoff_first, host)


def _doubled(first: float, times: int, most: float, host: str) -> float:
    # 2**64 seconds exceeds any maximum. Capping the exponent prevents a float overflow.
    return min(first * 2.0 ** min(times, 64), most) * (1 + JITTER * jitter(host, times))


def jitter(name: str, number: int) -> float:
    """Return a number in [0, 1) that looks random and is always the same for a name and a number: not drawn at random,
    so that a run can be repeated."""
    digest = blake2b(f"{number} {name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
