"""The end of a crawl of partitions: in a model, and round by round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.base.carrier.verbs import decoded, encoded
from crawler.job.partition.end_rounds import (
    Announcement,
    Status,
)
from tests.job.partition.rounds_simulation import end


@given(seed=st.integers(0, 2**32), partitions=st.integers(1, 5))
def test_the_end_is_never_said_while_a_link_is_anywhere_and_it_is_said(seed: int, partitions: int) -> None:
    assert end(seed, partitions) == []


def test_values_of_the_carrier_are_read_back_and_foreign_ones_are_none() -> None:
    status, told = Status("c-1", 3, 17, True, False, "1-0"), Announcement("c-2", (1, 2))
    assert decoded(encoded(status), Status) == status
    assert decoded(encoded(told), Announcement) == told
    assert decoded(None, Status) is None
    assert decoded(b"\xff", Status) is None
    assert decoded(b"junk", Announcement) is None
