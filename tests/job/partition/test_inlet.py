"""The inlet: the next parcel of each sender is admitted, and what is durable is acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch, Family
from crawler.job.partition import Ack, Inlet, Parcel, Verdict
from crawler.job.partition.inlet import InletError, check_row, decode_row, row_key
from crawler.job.store import MemoryStore

ME, PARTITIONS = 1, 4


class Door:
    """An inlet and its store."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.inlet = Inlet(self.store, ME, PARTITIONS)
        self.transactions = 0

    def take(self, sender: int, epoch: int, number: int, target: int = ME) -> Verdict:
        parcel = Parcel(sender, target, epoch, number, [])
        verdict = self.inlet.judge(parcel)
        if verdict is Verdict.ADMITTED:
            self.transactions += 1
            batch = Batch()
            self.inlet.admitted(parcel, batch, self.transactions)
            self.store.write(batch)
        return verdict

    def sync(self) -> list[Ack]:
        return self.inlet.acks(self.transactions)


def test_parcels_are_admitted_in_order_once() -> None:
    door = Door()
    assert door.take(0, 5, 2) is Verdict.GAP
    assert door.take(0, 5, 1) is Verdict.ADMITTED
    assert door.take(0, 5, 1) is Verdict.REPEATED
    assert door.take(0, 5, 3) is Verdict.GAP
    assert door.take(0, 5, 2) is Verdict.ADMITTED
    assert door.take(2, 1, 1) is Verdict.ADMITTED, "each sender has its own numbers"
    assert door.take(0, 5, 1) is Verdict.REPEATED


def test_a_greater_epoch_begins_at_1_and_ends_the_older_ones() -> None:
    door = Door()
    for number in (1, 2, 3):
        door.take(0, 5, number)
    assert door.take(0, 6, 4) is Verdict.GAP
    assert door.take(0, 6, 1) is Verdict.ADMITTED
    assert [door.take(0, 5, number) for number in (1, 2, 4)] == [Verdict.STALE] * 3
    assert door.take(0, 6, 2) is Verdict.ADMITTED
    assert decode_row(*next(iter(door.store.rows(Family.INLET)))) == (0, 6, 2)


@pytest.mark.parametrize(
    ("sender", "epoch", "number", "target"), [(0, 1, 1, 2), (ME, 1, 1, ME), (4, 1, 1, ME), (0, 0, 1, ME), (0, 1, 0, ME)]
)
def test_what_is_for_another_or_of_none_is_dropped(sender: int, epoch: int, number: int, target: int) -> None:
    door = Door()
    assert door.take(sender, epoch, number, target) is Verdict.MISSENT
    assert door.sync() == []


def test_an_acknowledgement_waits_until_the_parcel_is_durable() -> None:
    door = Door()
    door.take(0, 1, 1)
    door.take(0, 1, 2)
    door.take(3, 7, 1)
    assert door.inlet.acks(-1) == door.inlet.acks(0) == []
    assert door.inlet.acks(1) == [Ack(0, ME, 1, 1)]
    door.take(0, 1, 3)
    assert door.inlet.acks(3) == [Ack(0, ME, 1, 2), Ack(3, ME, 7, 1)]
    assert door.inlet.acks(3) == []
    assert door.sync() == [Ack(0, ME, 1, 3)]
    assert door.sync() == []


def test_whoever_sends_again_learns_again_what_is_durable() -> None:
    door = Door()
    door.take(0, 2, 1)
    door.sync()
    door.take(0, 2, 2)
    assert door.take(0, 2, 2) is Verdict.REPEATED
    assert door.inlet.acks(1) == [Ack(0, ME, 2, 1)], "the second is not durable yet"
    assert door.sync() == [Ack(0, ME, 2, 2)]
    for epoch, number in ((2, 1), (2, 2), (2, 9), (1, 1)):
        door.take(0, epoch, number)
        assert door.sync() == [Ack(0, ME, 2, 2)], (epoch, number)


def test_a_sender_that_nobody_knows_any_more_learns_that() -> None:
    door = Door()
    assert door.take(0, 3, 12) is Verdict.GAP
    assert door.sync() == [Ack(0, ME, 0, 0)]


def test_what_a_killed_process_left_is_durable_after_the_first_sync() -> None:
    door = Door()
    door.take(0, 2, 1)
    again = Door(door.store)
    assert again.take(0, 2, 1) is Verdict.REPEATED
    assert again.inlet.acks(-1) == []
    assert again.inlet.acks(0) == [Ack(0, ME, 2, 1)]
    assert again.take(0, 2, 2) is Verdict.ADMITTED


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.booleans()), max_size=60))
def test_it_does_what_the_design_says(parcels: list[tuple[int, int, bool]]) -> None:
    """Compared with the rule in one line, over parcels of any epoch and number and reopenings at any moment."""
    door, epoch, last = Door(), 0, 0
    for of, number, reopens in parcels:
        is_next = (of == epoch and number == last + 1) or (of > epoch and number == 1)
        assert (door.take(0, of, number) is Verdict.ADMITTED) == is_next
        if is_next:
            epoch, last = of, number
        if reopens:
            door = Door(door.store)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=60))
def test_no_acknowledgement_is_of_more_than_is_durable(steps: list[tuple[int, int]]) -> None:
    door, durable, taken = Door(), 0, dict.fromkeys((0, 2, 3), 0)
    at: dict[int, dict[int, int]] = {0: {}, 2: {}, 3: {}}
    for sender, kind in steps:
        if kind < 2 and sender != ME:
            taken[sender] += 1
            assert door.take(sender, 1, taken[sender]) is Verdict.ADMITTED
            at[sender][taken[sender]] = door.transactions
        elif kind == 2:
            durable = door.transactions
        for ack in door.inlet.acks(durable):
            assert at[ack.sender][ack.number] <= durable
    assert {ack.sender: ack.number for ack in door.sync()}.items() <= taken.items()


def test_rows_of_others_are_refused() -> None:
    batch, store = Batch(), MemoryStore()
    Door(store).inlet.admitted(Parcel(3, ME, 1, 1, []), batch, 1)
    store.write(batch)
    with pytest.raises(InletError, match="of partition 3"):
        Inlet(store, ME, 3)
    (key, value) = next(iter(store.rows(Family.INLET)))
    check_row(key, value, ME, 4)
    for damaged in ((key, value[:-1]), (key + b"x", value), (key, b"\x02" + value[1:]), (row_key(ME), value)):
        with pytest.raises(InletError):
            check_row(*damaged, ME, 4)
