"""What answers and failures make of a host: back-off, snooze, retirement, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings import BudgetSettings, PolitenessSettings
from crawler.frontier.backoff_policy import note
from crawler.frontier.host import Host, decode_host, encode_host
from crawler.frontier.host_closed import closure
from crawler.frontier.host_status import HostState, describe
from crawler.frontier.politeness import HoldReason, hold_after_errors
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from tests.frontier.hosts import made_host

NOW = 1_700_000_000.0
SETTINGS = PolitenessSettings(
    jitter=0.0, backoff_first=5.0, snooze_after=3, snooze_first=60.0, snooze_max=200.0, retire_after=2
)
NO_BUDGET = BudgetSettings()
UNANSWERED = [failure for failure in FailureClass if failure.unanswered]


def fail(host: Host, failure: FailureClass = FailureClass.TIMEOUT, at: float = NOW) -> tuple[float, HoldReason] | None:
    return note(host, RequestOutcome(1.0, 0, failure), at, at, SETTINGS)


def limited(host: Host, at: float, settings: PolitenessSettings) -> tuple[float, HoldReason]:
    """The host answers 429."""
    hold = note(host, RequestOutcome(0.1, 0, FailureClass.THROTTLED), at, at, settings)
    assert hold is not None
    return hold


@pytest.mark.parametrize("failure", UNANSWERED)
def test_a_host_that_keeps_failing_is_held_then_snoozed_then_retired(failure: FailureClass) -> None:
    host = Host("h.test:80")
    holds = [fail(host, failure, NOW + second) for second in range(6)]
    assert holds == [
        (5.0, HoldReason.FAILING),
        (10.0, HoldReason.FAILING),
        (60.0, HoldReason.SNOOZED),
        (120.0, HoldReason.SNOOZED),
        (0.0, HoldReason.RETIRED),
        (0.0, HoldReason.RETIRED),
    ]
    assert host.failures.retired
    closed = closure(host, NO_BUDGET)
    assert closed is not None
    assert closed.failed
    assert closed.error.startswith("retired: its host gave no answer 6 times in a row, 2 snoozes among them")
    assert failure.word in closed.error


def error(host: Host, at: float, taken_at: float | None = None) -> tuple[float, HoldReason] | None:
    """The host answers 500, 502 or 504."""
    request = RequestOutcome(0.1, 0, FailureClass.SERVER_ERROR)
    return note(host, request, at if taken_at is None else taken_at, at, SETTINGS)


def test_server_errors_in_a_row_double_the_gap_up_to_a_bound_and_a_good_answer_ends_that() -> None:
    host = Host("h.test:80")
    holds = [error(host, NOW + second) for second in range(9)]
    expected = [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert holds == [None, *((seconds, HoldReason.ERRORS) for seconds in expected)]
    host = decode_host(host.name, encode_host(host))  # also over a restart
    assert error(host, NOW + 10) == (60.0, HoldReason.ERRORS)
    assert limited(host, NOW + 11, SETTINGS) == (5.0, HoldReason.BACKOFF)
    assert error(host, NOW + 12) == (60.0, HoldReason.ERRORS), "429 is no good answer"
    note(host, RequestOutcome(0.1), NOW + 13, NOW + 13, SETTINGS)
    assert [error(host, NOW + 14), error(host, NOW + 15)] == [None, (2.0, HoldReason.ERRORS)]
    fail(host, at=NOW + 16)
    assert error(host, NOW + 17) is None
    assert not host.failures.retired


def test_server_errors_of_requests_under_way_at_the_last_one_are_one_event() -> None:
    host = Host("h.test:80")
    assert [error(host, NOW + at, NOW) for at in (1, 2, 3, 4)] == [None] * 4
    assert error(host, NOW + 6, NOW + 5) == (2.0, HoldReason.ERRORS)


def test_a_long_gap_is_doubled_and_a_short_one_counts_as_more() -> None:
    def second(**changes: Any) -> tuple[float, HoldReason] | None:
        return hold_after_errors(2, changes.get("delay", 1.0), PolitenessSettings(**changes))

    assert second(delay=20.0) == (40.0, HoldReason.ERRORS)
    assert second(delay=0.0) == (1.0, HoldReason.ERRORS)
    assert second(errors_max=0.0) is None
    assert hold_after_errors(10_000, 1.0, PolitenessSettings()) == (60.0, HoldReason.ERRORS)


def test_a_kept_connection_that_ended_is_counted_and_changes_nothing() -> None:
    host = Host("h.test:80")
    fail(host)
    before = host.failures
    assert note(host, RequestOutcome(1.0, 0, FailureClass.CUT_OFF, kept=True), NOW + 9, NOW + 9, SETTINGS) is None
    assert host.failures == before
    assert host.tally.errors == {FailureClass.TIMEOUT: 1, FailureClass.CUT_OFF: 1}


@given(
    st.lists(st.sampled_from(UNANSWERED), max_size=8),
    st.sampled_from([None, FailureClass.SERVER_ERROR, FailureClass.OTHER]),
)
def test_an_answer_makes_up_for_all_failures(failures: list[FailureClass], answer: FailureClass | None) -> None:
    host = Host("h.test:80")
    for at, failure in enumerate(failures):
        fail(host, failure, NOW + at)
    assert note(host, RequestOutcome(0.1, 10, answer), NOW + 99, NOW + 99, SETTINGS) is None
    assert host.failures[:5] == (0, 0, 0, None, False)
    assert fail(host, at=NOW + 100) == (5.0, HoldReason.FAILING)


def test_failures_of_requests_already_under_way_count_once() -> None:
    host = Host("h.test:80")
    holds = [note(host, RequestOutcome(10.0, 0, FailureClass.TIMEOUT), NOW, NOW + 10 + n, SETTINGS) for n in range(4)]
    assert holds == [(5.0, HoldReason.FAILING), None, None, None]
    assert host.failures.in_a_row == 1
    assert host.tally.errors == {FailureClass.TIMEOUT: 4}


def test_zero_means_never() -> None:
    host = Host("h.test:80")
    never = PolitenessSettings(jitter=0.0, snooze_after=0, retire_throttled=0)
    for at in range(300):
        hold = note(host, RequestOutcome(1.0, 0, FailureClass.DNS), NOW + at, NOW + at, never)
        assert hold is not None
        assert hold[1] is HoldReason.FAILING
    assert not host.failures.retired
    for at in range(300):
        assert limited(host, NOW + at, never)[1] is HoldReason.BACKOFF
    assert not host.failures.retired
    snoozing = PolitenessSettings(jitter=0.0, snooze_after=1, retire_after=0)
    for at in range(300, 600):
        assert note(host, RequestOutcome(1.0, 0, FailureClass.DNS), NOW + at, NOW + at, snoozing) != (
            0.0,
            HoldReason.RETIRED,
        )
    assert not host.failures.retired


def test_a_host_that_answers_nothing_but_429_is_retired_in_the_end() -> None:
    host = Host("h.test:80")
    settings = PolitenessSettings(jitter=0.0, retire_throttled=4)
    holds = []
    for at in range(4):
        holds.append(limited(host, NOW + at, settings))
    assert [hold[0] for hold in holds[:3]] == [5.0, 10.0, 20.0]
    assert holds[3] == (0.0, HoldReason.RETIRED)
    closed = closure(host, NO_BUDGET)
    assert closed is not None
    assert closed.error == "retired: its host answered 429 or 503 4 times in a row"


def test_a_good_answer_between_them_ends_a_row_of_429() -> None:
    host = Host("h.test:80")
    for at in range(0, 40, 2):
        assert limited(host, NOW + at, SETTINGS) == (5.0, HoldReason.BACKOFF)
        note(host, RequestOutcome(0.1), NOW + at + 1, NOW + at + 1, SETTINGS)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_the_smoothed_response_time_stays_among_the_response_times(seconds: list[float]) -> None:
    host = Host("h.test:80")
    for each in seconds:
        note(host, RequestOutcome(each), NOW, NOW, SETTINGS)
    assert host.politeness.latency is not None
    assert min(seconds) - 1e-9 <= host.politeness.latency <= max(seconds) + 1e-9
    assert host.tally.seconds == pytest.approx(sum(seconds))


def test_the_response_time_follows_a_server_that_becomes_slow() -> None:
    host = Host("h.test:80")
    for _ in range(20):
        note(host, RequestOutcome(0.1), NOW, NOW, SETTINGS)
    for _ in range(8):
        note(host, RequestOutcome(10.0), NOW, NOW, SETTINGS)
    assert host.politeness.latency is not None
    assert host.politeness.latency > 9.0
    refused = host.politeness.latency
    note(host, RequestOutcome(0.0, 0, FailureClass.REFUSED), NOW, NOW, SETTINGS)
    assert host.politeness.latency == refused, "a refusal says nothing of how fast the server is"


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (BudgetSettings(host_pages=3), "budget: host_pages: 3 of 3"),
        (BudgetSettings(host_bytes=500), "budget: host_bytes: 600 of 500"),
        (BudgetSettings(host_seconds=1.0), "budget: host_seconds: 1.5 of 1 s"),
    ],
)
def test_a_budget_that_is_used_up_closes_the_host(budget: BudgetSettings, words: str) -> None:
    host = made_host("h.test:80", fetched=2)
    assert closure(host, BudgetSettings(4, 1_000, 9.0)) is None
    tally = host.tally
    tally.fetched, tally.size_read, tally.seconds = 3, 600, 1.5
    closed = closure(host, budget)
    assert closed is not None
    assert closed.error.startswith(words)
    assert not closed.failed


def row_state(host: Host, now: float = NOW) -> tuple[str, str]:
    row = describe(host, now, SETTINGS, NO_BUDGET)
    return row.state.value, row.rule


def test_the_row_of_a_host_says_what_it_does_and_why() -> None:
    host = Host("h.test:80")
    assert row_state(host) == ("idle", "none")
    host.queue.size = 2
    assert row_state(host) == ("ready", "none")
    politeness = host.politeness
    politeness.next_time, politeness.hold_reason, politeness.crawl_delay = NOW + 7, HoldReason.CRAWL_DELAY, 8.0
    row = describe(host, NOW, SETTINGS, NO_BUDGET)
    assert (row.state, row.next_time, row.wait_seconds, row.gap_seconds) == (HostState.WAITING, NOW + 7, 7.0, 8.0)
    assert row.reason == "Crawl-delay in robots.txt"
    assert row_state(host, NOW + 7) == ("ready", "crawl_delay")
    host.leased = host.queue.taken = 1
    assert row_state(host) == ("leased", "crawl_delay")
    host.leased = host.queue.taken = 0
    host.in_line = True
    assert row_state(host) == ("queued", "turn")
    host.in_line = False
    for at in range(3):
        fail(host, FailureClass.DNS, NOW + at)
    politeness.next_time, politeness.hold_reason = NOW + 62, HoldReason.SNOOZED
    row = describe(host, NOW + 2, SETTINGS, NO_BUDGET)
    assert (row.state, row.reason) == (HostState.SNOOZED, "3 requests in a row without an answer, the last: dns")
    assert row.errors == {"dns": 3}
    politeness.paused = True
    assert row_state(host) == ("paused", "paused")
    host.failures = host.failures._replace(retired=True)
    row = describe(host, NOW, SETTINGS, NO_BUDGET)
    assert (row.state, row.rule, row.next_time, row.pending) == (HostState.RETIRED, "retired", None, 2)
    politeness.blocked = True
    assert row_state(host) == ("blocked", "blocked")


def test_a_host_whose_urls_all_wait_for_a_retry_says_so() -> None:
    host = made_host("h.test:80", size=1, retry_size=1, retries_waiting=1, retry_at=NOW + 30, next_time=NOW + 1)
    row = describe(host, NOW + 2, SETTINGS, NO_BUDGET)
    assert (row.state, row.rule, row.next_time) == (HostState.WAITING, "retry", NOW + 30)
