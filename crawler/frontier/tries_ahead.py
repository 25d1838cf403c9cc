"""Estimates how many tries and seconds the URLs of a host will still take, from its failures so far.

A URL that failed is retried, and the host is held after a failure. The failure rate of its URLs comes from the counts
in its record: failures of all tries, divided by finished URLs. A current run of failures counts too: a host that worked
for a day and has failed for a minute is expected to keep failing. Both change by one try at a time, so the estimate
does not jump.

Pure: a function of the host's record and the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from crawler.base.settings.parts import PolitenessSettings, RetrySettings
from crawler.frontier.backoff_policy import note
from crawler.frontier.host import NO_FAILURES, Failures, Host
from crawler.frontier.politeness import JITTER, HoldReason, longest_backoff, pauses_after_errors
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.retries import retry_wait, tries_of

_DOUBLINGS = 64  # doublings of a hold after which every hold is at its maximum
_ROW = 3  # length of a run of failures that is as likely to continue as to be chance
_STEPS = 64  # tries of an unresponsive host that are simulated one by one


class Troubles(Struct, frozen=True):
    """The failures of requests to a host.

    ``finished`` of its URLs were fetched or failed. ``retry_after`` is the wait requested by its last refusal, in
    seconds, or 0 if it set none. ``robots_tries`` is the number of failed tries of its robots.txt.
    """

    name: str
    failures: Failures
    errors: Mapping[FailureClass, int]
    finished: int
    retry_after: float
    robots_tries: int = 0

    @classmethod
    def of(cls, host: Host) -> Troubles | None:
        """Return the troubles of a host; None if it has had none."""
        failures, known = host.failures, host.politeness
        if failures is NO_FAILURES and not (host.tally.errors or known.robots_tries):
            return None
        asked = failures.retry_after
        if not asked and failures.backoff and known.hold_reason is HoldReason.RETRY_AFTER:
            asked = max(0.0, known.next_time - known.last_request)  # derived from the stored times
        finished = host.tally.fetched + host.tally.failed
        return cls(host.name, failures, host.tally.errors or {}, finished, asked, known.robots_tries)

    @property
    def unanswered(self) -> bool:
        """True if the host currently does not respond, provides no robots.txt, or has only sent refusals and errors."""
        in_a_row, snoozes, backoff, *_ = self.failures
        nothing = not self.finished and (
            (backoff and FailureClass.THROTTLED in self.errors) or self.failures.server_errors
        )
        return bool(in_a_row or snoozes or self.robots_tries or nothing)

    @property
    def last(self) -> FailureClass:
        """The class of its last failure, if it does not respond."""
        failures = self.failures
        if failures.in_a_row or failures.snoozes:
            return FailureClass.TIMEOUT if failures.last is None else failures.last
        return FailureClass.THROTTLED if failures.backoff else FailureClass.SERVER_ERROR


class Pace(Struct, frozen=True):
    """A host's ``gap`` between two requests, and its ``latency``; both in seconds."""

    gap: float
    latency: float | None

    def each(self, per_host: int) -> float:
        """Return the seconds that each try takes, divided among the lease slots.

        The starts of two requests are at least a gap apart, regardless of the number of slots.
        """
        return max(self.gap, (self.gap + (self.latency or 0.0)) / per_host)

    def at_once(self, per_host: int) -> float:
        """Return how many requests start before the response to the first can hold the others."""
        latency = self.latency or 0.0
        return min(per_host, 1 + latency / self.gap) if self.gap else per_host


class _Kind(Struct, frozen=True):
    """A class of failure of a host.

    ``failing`` is the expected number of tries of each URL that fail in this way, ``tries`` its limit, and ``hold`` the
    seconds for which one failure holds the host.
    """

    failing: float
    tries: int
    hold: float


def slowed(troubles: Troubles | None, pace: Pace, settings: PolitenessSettings, retry: RetrySettings) -> float | None:
    """Return the seconds that further tries and holds add to each URL of a host at its current failure rate.

    None while it does not respond, as the end of that is unknown.
    """
    if troubles is None:
        return 0.0
    if troubles.unanswered:
        return None
    each, at_once = pace.each(settings.per_host), pace.at_once(settings.per_host)
    kinds = list(_kinds(troubles, pace.gap, settings, retry))
    return sum(min(kind.failing, kind.tries - 1) * each + kind.failing * kind.hold / at_once for kind in kinds)


def _kinds(troubles: Troubles, gap: float, settings: PolitenessSettings, retry: RetrySettings) -> Iterator[_Kind]:
    rows = {FailureClass.SERVER_ERROR: troubles.failures.server_errors, FailureClass.THROTTLED: 0}
    refused = FailureClass.BLOCKED if FailureClass.THROTTLED not in troubles.errors else FailureClass.THROTTLED
    rows[refused] = troubles.failures.backoff
    for failure in {**troubles.errors, **{each: 0 for each, row in rows.items() if row}}:
        tries, row, met = tries_of(failure, retry), rows.get(failure, 0), troubles.errors.get(failure, 0)
        # For a host that fails occasionally, even a longer run may be chance.
        usual = min(tries, max(0, met - row) / (troubles.finished + 1))
        chance = _ROW / max(0.01, 1 - usual / (1 + min(usual, tries - 1)))
        lasting = row**3 / (row**3 + chance**3)
        failing = max(min(tries, met / (troubles.finished + 1)), tries * lasting)
        # The last try of a URL succeeds, unless it has no tries left.
        share = max(lasting, failing / (1 + min(failing, tries - 1)))
        yield _Kind(failing, tries, max(0.0, _hold(failure, share, troubles, settings, gap)))


def _hold(failure: FailureClass, share: float, troubles: Troubles, settings: PolitenessSettings, gap: float) -> float:
    """Return the seconds beyond its gap for which a failure holds the host, if ``share`` of its tries fail."""
    longer = 1 + JITTER / 2
    match failure:
        case FailureClass.SERVER_ERROR:
            least, most = pauses_after_errors(settings)
            first = max(gap, least)
            # The first failure of a run has no effect.
            return _mean(first, most, share) - (1 - share) * first - gap * share
        case FailureClass.THROTTLED if troubles.retry_after:
            return troubles.retry_after - gap
        case FailureClass.THROTTLED | FailureClass.BLOCKED:
            return longer * _mean(settings.backoff_first, longest_backoff(settings), share) - gap
        case _ if failure is FailureClass.LOGIN or failure.unanswered:
            return longer * settings.backoff_first - gap
    return 0.0


def _mean(first: float, most: float, share: float) -> float:
    """Return the mean of a hold that doubles with each failure in a row, if ``share`` of all tries fail."""
    mean, left, hold = 0.0, 1.0, first
    for _ in range(_DOUBLINGS):
        if hold >= most:
            break
        mean += left * (1 - share) * hold
        left, hold = left * share, 2 * hold
    return mean + left * min(hold, most)


def until_given_up(
    troubles: Troubles, size: int, latency: float | None, settings: PolitenessSettings, retry: RetrySettings
) -> float:
    """Return the seconds from its next time until the crawler gives up on a host that remains unresponsive.

    This happens when the host is retired, when each of its ``size`` URLs has had all its tries, or when its robots.txt
    has, without which no URL is requested.
    """
    last, robots, failures = troubles.last, troubles.robots_tries, troubles.failures
    # For robots.txt, a response without usable rules counts as a server error.
    tried = Tried(
        troubles.name,
        robots or failures.in_a_row or failures.backoff or failures.server_errors,
        last if last.unanswered or not robots else FailureClass.SERVER_ERROR,
        RequestOutcome(latency or 0.0, failure=last, retry_after=troubles.retry_after or None),
        1 if robots else size,
    )
    return tried.request.seconds + tries_left(tried, Host(troubles.name, failures=failures), settings, retry).seconds


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
