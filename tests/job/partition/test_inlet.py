"""The inlet: the next batch of each sender is admitted, and what is durable is acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch
from crawler.job.partition.inlet import Inlet, Verdict
from crawler.job.partition.link_batch_codec import Ack, LinkBatch
from tests.memory_store import MemoryStore

ME, PARTITIONS = 1, 4


class Door:
    """An inlet and its store."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.inlet = Inlet(self.store, ME, PARTITIONS)
        self.transactions = 0

    def take(self, sender: int, epoch: int, number: int, target: int = ME) -> Verdict:
        link_batch = LinkBatch(sender, target, epoch, number, [])
        verdict = self.inlet.judge(link_batch)
        if verdict is Verdict.ADMITTED:
            self.transactions += 1
            batch = Batch()
            self.inlet.admitted(link_batch, batch, self.transactions)
            self.store.write(batch)
        return verdict

    def sync(self) -> list[Ack]:
        return self.inlet.acks(self.transactions)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.booleans()), max_size=60))
def test_it_does_what_the_design_says(link_batches: list[tuple[int, int, bool]]) -> None:
    """Compared with the rule in one line, over batches of any epoch and number and reopenings at any moment."""
    door, epoch, last = Door(), 0, 0
    for of, number, reopens in link_batches:
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
