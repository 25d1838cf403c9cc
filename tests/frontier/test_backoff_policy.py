"""What answers and failures make of a host: back-off, snooze, retirement, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import BudgetSettings, PolitenessSettings
from crawler.frontier import backoff_policy
from crawler.frontier.backoff_policy import note
from crawler.frontier.host import Host, decode_host, encode_host
from crawler.frontier.host_closed import closure
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass, RequestOutcome

NOW = 1_700_000_000.0
SETTINGS = PolitenessSettings(patience="short")


@pytest.fixture(autouse=True)
def _without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff_policy, "JITTER", 0.0)


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
    assert "6" in closed.error
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


def test_a_host_that_answers_nothing_but_429_is_retired_in_the_end() -> None:
    host = Host("h.test:80")
    holds = [limited(host, NOW + at, SETTINGS) for at in range(6)]
    assert [hold[0] for hold in holds[:3]] == [5.0, 10.0, 20.0]
    assert holds[5] == (0.0, HoldReason.RETIRED)
    closed = closure(host, NO_BUDGET)
    assert closed is not None
    assert "429" in closed.error
