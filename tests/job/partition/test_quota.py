"""The pages of a whole crawl, shared out over its partitions: never more than the limit, and none left unused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.job.partition.quota import Allowance, Bank, Grant, Purse, Wish
from tests.job.partition.quota_simulation import spend


@given(
    st.integers(0, 60),
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.integers(0, 2**32),
    st.integers(0, 200),
)
@settings(max_examples=300, deadline=None)
def test_the_limit_holds_through_losses_and_is_reached_if_there_is_work(
    limit: int, works: list[int], seed: int, troubles: int
) -> None:
    spend(limit, works, seed, troubles)


def test_a_limit_that_was_lowered_grants_nothing_and_one_that_was_raised_goes_on() -> None:
    granted = {0: Allowance(1, 8), 1: Allowance(3, 5)}
    for limit, total, left in ((10, 5, False), (1_000, 9, True)):
        bank = Bank(limit, 2, granted)
        assert bank.hear(1, Wish(Allowance(3, 5), 4)) == (Grant(Allowance(3, 5), left), False), "0 was not heard"
        assert bank.unheard == [0]
        bank.hear(0, Wish(Allowance(1, 8)))
        assert bank.granting == ([1] if left else [])
        grant, changed = bank.hear_again(1)
        assert (grant.gives.total, grant.left, changed) == (total, left, left)


def test_pages_of_a_run_without_a_limit_count() -> None:
    """Whatever the bank granted before, and whether the partition heard of it."""
    for heard in (False, True):
        bank, purse = Bank(30, 1, {}), Purse(Allowance())
        grant, _ = bank.hear(0, purse.wish(4))
        if heard:
            purse.hear(grant)
        assert purse.begin(20)
        assert not purse.begin(20)
        assert bank.hear(0, purse.wish(0))[0].gives.total == 20
        assert bank.left == 10


def test_what_was_given_back_is_granted_to_others() -> None:
    bank, idle, busy = Bank(6, 1, {}), Purse(Allowance()), Purse(Allowance())
    bank.hear(0, idle.wish(0))
    idle.hear(bank.hear(0, idle.wish(3))[0])
    assert idle.total == 3
    while not busy.bank_is_empty:
        busy.hear(bank.hear(1, busy.wish(9))[0])
    assert busy.total == 3
    assert idle.give_back(1)
    grant, _ = bank.hear(0, idle.wish(0))
    assert not idle.hear(grant)
    for _ in range(3):
        busy.hear(bank.hear(1, busy.wish(9))[0])
    assert busy.total == 5
    assert idle.total == 1


def test_nothing_is_given_back_while_an_answer_may_be_on_its_way() -> None:
    purse = Purse(Allowance(1, 4))
    wish = purse.wish(2)
    assert not purse.give_back(1)
    bank = Bank(10, 1, {0: Allowance(1, 4)})
    purse.hear(bank.hear(0, wish)[0])
    assert purse.give_back(1)
    assert purse.allowance == Allowance(3, 1)
