"""The end of a crawl of partitions: in a model, and round by round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.partition.end_rounds import (
    Announcement,
    EndRounds,
    Look,
    Status,
    decode_announcement,
    decode_status,
    encode,
)
from tests.job.partition.rounds_simulation import end


@given(seed=st.integers(0, 2**32), partitions=st.integers(1, 5))
def test_the_end_is_never_said_while_a_link_is_anywhere_and_it_is_said(seed: int, partitions: int) -> None:
    assert end(seed, partitions) == []


def quiet(rounds: EndRounds, *, epoch: int = 1, version: int = 0, idle: bool = True, empty: bool = True) -> Status:
    return Status(rounds.announcement.round, epoch, version, idle, empty, "7")


def test_rounds_begin_again_when_a_partition_was_opened_after_the_end() -> None:
    rounds = EndRounds(1, "c")
    for look in (Look.AGAIN, Look.ENDED, Look.ENDED):
        assert rounds.look([quiet(rounds)], ["7"]) is look
    assert rounds.look([quiet(rounds, epoch=2)], ["7"]) is Look.AGAIN
    assert rounds.announcement.ended == ()
    assert rounds.look([quiet(rounds, epoch=2)], ["7"]) is Look.AGAIN
    assert rounds.look([quiet(rounds, epoch=2)], ["7"]) is Look.ENDED
    assert rounds.announcement.ended == (2,)


def test_an_end_counts_in_the_epochs_in_which_it_was_found() -> None:
    told = Announcement("c-3", (4, 9))
    assert told.ends(0, 4)
    assert told.ends(1, 9)
    assert not told.ends(1, 10)
    assert not told.ends(2, 9)
    assert not Announcement("c-3").ends(0, 4)


def test_values_of_the_carrier_are_read_back_and_foreign_ones_are_none() -> None:
    status, told = Status("c-1", 3, 17, True, False, "1-0"), Announcement("c-2", (1, 2))
    assert decode_status(encode(status)) == status
    assert decode_announcement(encode(told)) == told
    assert decode_status(None) is None
    assert decode_status(b"\xff") is None
    assert decode_announcement(b"junk") is None
