"""The pages of a whole crawl, shared out over its partitions: never more than the limit, and none left unused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.job.partition.quota import Allowance, CrawlQuota, Grant, PartitionQuota, Recall, Wish
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


def test_pages_of_earlier_runs_count_and_a_limit_below_them_grants_nothing() -> None:
    for limit, total in ((10, 5), (16, 8), (1_000, 9)):
        bank, partition = CrawlQuota(7, limit, 2), PartitionQuota(3, 5)
        recall = bank.hear(1, partition.wish(4))
        assert recall == Recall(7), "it does not know the term"
        partition.recall(recall)
        answer = bank.hear(1, partition.wish(4))
        assert isinstance(answer, Grant)
        assert (answer.gives.total, bank.unheard) == (5, [0]), "0 was not heard"
        bank.hear(0, Wish(7, Allowance((2, 0), 8)))
        assert bank.granting == ([1] if limit > 13 else [])
        grant = bank.hear(1)
        assert isinstance(grant, Grant)
        assert partition.hear(grant)
        assert (partition.total, partition.bank_is_empty) == (total, limit < 1_000)


def test_a_grant_of_an_earlier_term_or_to_an_earlier_opening_is_ignored() -> None:
    partition = PartitionQuota(3, 5)
    partition.recall(Recall(8))
    assert not partition.hear(Grant(7, Allowance((3, 1), 9), left=True))
    assert not partition.hear(Grant(8, Allowance((2, 4), 9), left=True))
    assert partition.total == 5
