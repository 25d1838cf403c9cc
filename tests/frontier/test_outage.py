"""The judge of our own line, by itself: what it may never call an outage, and what it must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.outage import GOOD_MOST, HOSTS, Failed, OutageJudge


def href(host: int) -> str:
    return f"http://h{host}.test/"


def answer(judge: OutageJudge, host: int, began: float) -> None:
    judge.answered(f"h{host}", href(host), began)


def fail(judge: OutageJudge, host: int, at: float, address: str | None = None, *, local: bool = False) -> None:
    judge.failed(f"h{host}", Failed(at, href(host), address, witness=False, local=local))


def address(host: int) -> str:
    return f"192.0.2.{host}"


@given(st.lists(st.integers(0, 200), min_size=HOSTS, unique=True))
def test_all_good_hosts_that_fail_without_an_answer_since_make_an_outage(hosts: list[int]) -> None:
    judge = OutageJudge()
    for host in hosts:
        answer(judge, host, 1.0)
    for number, host in enumerate(hosts, 1):
        assert not judge.many or number > HOSTS
        fail(judge, host, 2.0 + number, address(host))
    assert judge.many
    assert judge.first == 3.0


@given(st.integers(HOSTS, 50), st.integers(0, 49))
def test_one_answer_to_a_later_request_ends_it(count: int, which: int) -> None:
    judge = OutageJudge()
    for host in range(count):
        answer(judge, host, 0.0)
        fail(judge, host, 1.0, address(host))
    assert judge.many
    answer(judge, which, 0.5)
    assert judge.many, "that request was sent before the line went down"
    answer(judge, which, 1.0)
    assert not judge.many
    assert judge.first is None
    for host in range(count):
        fail(judge, host, 2.0, address(host))
    assert not judge.many, "the hosts that were blamed have not answered since"


@given(st.integers(0, 300))
def test_hosts_that_never_answered_make_none(count: int) -> None:
    judge = OutageJudge()
    for host in range(count):
        fail(judge, host, 1.0)
    assert not judge.many
    assert not judge.local


def test_good_hosts_that_have_not_failed_are_asked_first() -> None:
    judge = OutageJudge()
    for host in range(2 * GOOD_MOST):
        answer(judge, host, 0.0)
    last = 2 * GOOD_MOST - 1
    fail(judge, last, 1.0)
    fail(judge, 3 * GOOD_MOST, 1.0)  # never answered
    assert next(judge.untried()) == href(last - 1)
    assert judge.targets(4) == [href(last - 1), href(last - 2), href(last), href(3 * GOOD_MOST)]
    assert len(list(judge.untried())) == GOOD_MOST - 1, "memory is bounded"
