"""The pages of a whole crawl, shared out over its partitions: never more than the limit, and none left unused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.job.partition.quota import Allowance, CrawlQuota, Grant, Wish
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
        bank = CrawlQuota(limit, 2, granted)
        assert bank.hear(1, Wish(Allowance(3, 5), 4)) == (Grant(Allowance(3, 5), left), False), "0 was not heard"
        assert bank.unheard == [0]
        bank.hear(0, Wish(Allowance(1, 8)))
        assert bank.granting == ([1] if left else [])
        grant, changed = bank.hear(1)
        assert (grant.gives.total, grant.left, changed) == (total, left, left)
