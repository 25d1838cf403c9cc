"""Estimates how many tries are left for a host that does not respond, and when the crawler gives up on it.

Pure: a function of the host's record and the settings.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from crawler.base.settings.parts import PolitenessSettings, RetrySettings
from crawler.frontier.backoff_policy import note
from crawler.frontier.host import Failures, Host
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.retries import retry_wait, tries_of

_STEPS = 64  # tries of an unresponsive host that are simulated one by one


class Unresponsive(Struct, frozen=True):
    """A host that currently does not respond, provides no robots.txt, or has only sent refusals and errors.

    ``retry_after`` is the wait requested by its last refusal, in seconds, or 0 if it set none. ``robots_tries`` is the
    number of failed tries of its robots.txt.
    """

    name: str
    failures: Failures
    retry_after: float
    robots_tries: int

    @classmethod
    def of(cls, host: Host) -> Unresponsive | None:
        """Return None if the host responds."""
        failures, known, tally = host.failures, host.politeness, host.tally
        refuses = failures.backoff and FailureClass.THROTTLED in (tally.errors or {})
        nothing = not (tally.fetched or tally.failed) and (refuses or failures.server_errors)
        if not (failures.in_a_row or failures.snoozes or known.robots_tries or nothing):
            return None
        asked = failures.retry_after
        if not asked and failures.backoff and known.hold_reason is HoldReason.RETRY_AFTER:
            asked = max(0.0, known.next_time - known.last_request)  # derived from the stored times
        return cls(host.name, failures, asked, known.robots_tries)

    @property
    def last(self) -> FailureClass:
        """The class of its last failure."""
        failures = self.failures
        if failures.in_a_row or failures.snoozes:
            return FailureClass.TIMEOUT if failures.last is None else failures.last
        return FailureClass.THROTTLED if failures.backoff else FailureClass.SERVER_ERROR


def until_given_up(
    host: Unresponsive, size: int, latency: float | None, settings: PolitenessSettings, retry: RetrySettings
) -> float:
    """Return the seconds from its next time until the crawler gives up on a host that remains unresponsive.

    This happens when the host is retired, when each of its ``size`` URLs has had all its tries, or when its robots.txt
    has, without which no URL is requested.
    """
    last, robots, failures = host.last, host.robots_tries, host.failures
    # For robots.txt, a response without usable rules counts as a server error.
    tried = Tried(
        host.name,
        robots or failures.in_a_row or failures.backoff or failures.server_errors,
        last if last.unanswered or not robots else FailureClass.SERVER_ERROR,
        RequestOutcome(latency or 0.0, failure=last, retry_after=host.retry_after or None),
        1 if robots else size,
    )
    return tried.request.seconds + tries_left(tried, Host(host.name, failures=failures), settings, retry).seconds


class Tried(NamedTuple):
    """A failing request: its failure class for retries, its outcome for the host, and the number of earlier tries.

    ``name`` is the name of the URL, or of the host if its robots.txt is requested. ``size`` is the number of URLs that
    fail in turn.
    """

    name: str
    before: int
    failure: FailureClass
    request: RequestOutcome
    size: int = 1


class TriesLeft(NamedTuple):
    """The number of further tries, and the seconds until the crawler gives up."""

    number: int
    seconds: float


def tries_left(tried: Tried, host: Host, politeness: PolitenessSettings, retry: RetrySettings) -> TriesLeft:
    """Return the tries that follow a failure if all further requests fail in the same way.

    The failure is not yet recorded for the host.
    """
    stand_in = Host(host.name, failures=host.failures._replace(failed_at=0.0, throttled_at=0.0, erred_at=0.0))
    tries, at, wait = max(1, tried.size * tries_of(tried.failure, retry) - tried.before), 0.0, 0.0
    for number in range(min(tries, _STEPS)):
        held = note(stand_in, tried.request, at, at, politeness)
        if stand_in.failures.retired or number == tries - 1:
            return TriesLeft(number, at)
        wait = max(politeness.delay, 0.0 if held is None else held[0])
        if tried.size == 1 and tried.failure is not FailureClass.THROTTLED:  # the host gets no other request meanwhile
            wait = max(wait, retry_wait(tried.before + number + 1, retry, tried.name))
        wait += tried.request.seconds
        at += wait
    return TriesLeft(tries - 1, at + (tries - 1 - _STEPS) * wait)
