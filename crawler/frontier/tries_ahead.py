"""How many tries and seconds the URLs of a host will still take, from how it has answered so far.

A URL that failed is tried again, and after a failure the host is held. How often its URLs fail is what its record
counts: failures of all tries, over URLs that are finished. A row of failures that lasts counts too: a host that was
fine for a day and fails since a minute is believed to go on so. Both change by one try at a time, so that what follows
from them does not jump.

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

_DOUBLINGS = 64  # of a hold: beyond, any is at its most
_ROW = 3  # failures in a row that are as likely to go on as to be chance, of a host that never failed before
_STEPS = 64  # tries of a host that does not answer that are looked at one by one


class Troubles(Struct, frozen=True):
    """How requests to a host have failed. ``finished`` URLs of it were fetched or failed. ``retry_after`` is how long
    its last refusal asked the crawler to wait, 0 if it named no time. ``robots_tries`` of its robots.txt failed."""

    name: str
    failures: Failures
    errors: Mapping[FailureClass, int]
    finished: int
    retry_after: float
    robots_tries: int = 0

    @classmethod
    def of(cls, host: Host) -> Troubles | None:
        """None if the host has had none."""
        failures, known = host.failures, host.politeness
        if failures is NO_FAILURES and not (host.tally.errors or known.robots_tries):
            return None
        asked = failures.retry_after
        if not asked and failures.backoff and known.hold_reason is HoldReason.RETRY_AFTER:
            asked = max(0.0, known.next_time - known.last_request)  # as it was stored
        finished = host.tally.fetched + host.tally.failed
        return cls(host.name, failures, host.tally.errors or {}, finished, asked, known.robots_tries)

    @property
    def unanswered(self) -> bool:
        """Whether the host does not answer at present, gives no robots.txt, or has never given anything but refusals
        and errors."""
        in_a_row, snoozes, backoff, *_ = self.failures
        nothing = not self.finished and (
            (backoff and FailureClass.THROTTLED in self.errors) or self.failures.server_errors
        )
        return bool(in_a_row or snoozes or self.robots_tries or nothing)

    @property
    def last(self) -> FailureClass:
        """How its last request failed, if it does not answer."""
        failures = self.failures
        if failures.in_a_row or failures.snoozes:
            return FailureClass.TIMEOUT if failures.last is None else failures.last
        return FailureClass.THROTTLED if failures.backoff else FailureClass.SERVER_ERROR


class Pace(Struct, frozen=True):
    """A host's ``gap`` between two requests, and its ``latency``; both in seconds."""

    gap: float
    latency: float | None

    def each(self, per_host: int) -> float:
        """Seconds that each try takes over the lease slots. The starts of two requests are a gap apart however many
        slots there are."""
        return max(self.gap, (self.gap + (self.latency or 0.0)) / per_host)

    def at_once(self, per_host: int) -> float:
        """How many requests begin before the answer to the first can hold the others."""
        latency = self.latency or 0.0
        return min(per_host, 1 + latency / self.gap) if self.gap else per_host


class _Kind(Struct, frozen=True):
    """A kind of failure: how many tries of each URL end so, of at most ``tries``, and how long one holds the host."""

    failing: float
    tries: int
    hold: float


def slowed(troubles: Troubles | None, pace: Pace, settings: PolitenessSettings, retry: RetrySettings) -> float | None:
    """Seconds that further tries and holds add to each URL of a host, if it goes on as it has so far. None while it
    does not answer: nobody knows when it will."""
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
        # Of a host that fails now and then, a longer row is chance.
        usual = min(tries, max(0, met - row) / (troubles.finished + 1))
        chance = _ROW / max(0.01, 1 - usual / (1 + min(usual, tries - 1)))
        lasting = row**3 / (row**3 + chance**3)
        failing = max(min(tries, met / (troubles.finished + 1)), tries * lasting)
        # The last try of a URL does not fail, unless it was the last that it has.
        share = max(lasting, failing / (1 + min(failing, tries - 1)))
        yield _Kind(failing, tries, max(0.0, _hold(failure, share, troubles, settings, gap)))


def _hold(failure: FailureClass, share: float, troubles: Troubles, settings: PolitenessSettings, gap: float) -> float:
    """Seconds beyond its gap for which a failure holds the host, if ``share`` of its tries fail."""
    longer = 1 + JITTER / 2
    match failure:
        case FailureClass.SERVER_ERROR:
            least, most = pauses_after_errors(settings)
            first = max(gap, least)
            # The first of a row is nothing.
            return _mean(first, most, share) - (1 - share) * first - gap * share
        case FailureClass.THROTTLED if troubles.retry_after:
            return troubles.retry_after - gap
        case FailureClass.THROTTLED | FailureClass.BLOCKED:
            return longer * _mean(settings.backoff_first, longest_backoff(settings), share) - gap
        case _ if failure is FailureClass.LOGIN or failure.unanswered:
            return longer * settings.backoff_first - gap
    return 0.0


def _mean(first: float, most: float, share: float) -> float:
    """The mean of a hold that doubles with each failure in a row, if ``share`` of all tries fail."""
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
    """Seconds from its next time until a host that goes on giving no answer is retired, or each of its ``size`` URLs
    has had all its tries; or until its robots.txt has had them, without which no URL is asked for."""
    last, robots, failures = troubles.last, troubles.robots_tries, troubles.failures
    # To the file, an answer that says nothing is a server error, whatever it is to a page.
    tried = Tried(
        troubles.name,
        robots or failures.in_a_row or failures.backoff or failures.server_errors,
        last if last.unanswered or not robots else FailureClass.SERVER_ERROR,
        RequestOutcome(latency or 0.0, failure=last, retry_after=troubles.retry_after or None),
        1 if robots else size,
    )
    return tried.request.seconds + tries_left(tried, Host(troubles.name, failures=failures), settings, retry).seconds


class Tried(NamedTuple):
    """A request that fails: as what it is tried again, what it means for its host, and how often the same was tried
    before. ``name``: of the URL, or of the host if its robots.txt is asked for. ``size``: URLs that fail in turn."""

    name: str
    before: int
    failure: FailureClass
    request: RequestOutcome
    size: int = 1


class TriesLeft(NamedTuple):
    """How often the same is tried again, and after how many seconds it is given up."""

    number: int
    seconds: float


def tries_left(tried: Tried, host: Host, politeness: PolitenessSettings, retry: RetrySettings) -> TriesLeft:
    """What follows the failure, which the host does not know of yet, if all further requests fail as it did."""
    stand_in = Host(host.name, failures=host.failures._replace(failed_at=0.0, throttled_at=0.0, erred_at=0.0))
    tries, at, wait = max(1, tried.size * tries_of(tried.failure, retry) - tried.before), 0.0, 0.0
    for number in range(min(tries, _STEPS)):
        held = note(stand_in, tried.request, at, at, politeness)
        if stand_in.failures.retired or number == tries - 1:
            return TriesLeft(number, at)
        wait = max(politeness.delay, 0.0 if held is None else held[0])
        if tried.size == 1 and tried.failure is not FailureClass.THROTTLED:  # nothing else is asked meanwhile
            wait = max(wait, retry_wait(tried.before + number + 1, retry, tried.name))
        wait += tried.request.seconds
        at += wait
    return TriesLeft(tries - 1, at + (tries - 1 - _STEPS) * wait)
