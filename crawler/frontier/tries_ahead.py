"""How often, and for how long, a URL or robots.txt is still tried if its host goes on failing as it does.

Pure: a function of the host's failures and the settings.
"""

from __future__ import annotations

from typing import NamedTuple

from crawler.base.settings.parts import PolitenessSettings, RetrySettings
from crawler.frontier.backoff_policy import note
from crawler.frontier.host import Host
from crawler.frontier.request_outcome import FailureClass, RequestOutcome, retry_wait, tries_of


class Tried(NamedTuple):
    """A request that fails: as what it is tried again, what it means for its host, and how often the same was tried
    before. ``name``: of the URL, or of the host if its robots.txt is asked for."""

    name: str
    before: int
    failure: FailureClass
    request: RequestOutcome


class TriesLeft(NamedTuple):
    """How often the same is tried again, and after how many seconds it is given up."""

    number: int
    seconds: float


def tries_left(tried: Tried, host: Host, politeness: PolitenessSettings, retry: RetrySettings) -> TriesLeft:
    """What follows the failure, which the host does not know of yet, if all further requests fail as it did."""
    stand_in = Host(host.name, failures=host.failures._replace(failed_at=0.0, throttled_at=0.0, erred_at=0.0))
    last, at = max(0, tries_of(tried.failure, retry) - tried.before - 1), 0.0
    for number in range(last):
        held = note(stand_in, tried.request, at, at, politeness)
        if stand_in.failures.retired:
            return TriesLeft(number, at)
        wait = max(politeness.delay, 0.0 if held is None else held[0])
        if tried.failure is not FailureClass.THROTTLED:  # nothing else is asked meanwhile
            wait = max(wait, retry_wait(tried.failure, tried.before + number + 1, retry, tried.name))
        at += wait + tried.request.seconds
    return TriesLeft(last, at)
