"""The inlet: the next batch of each sender is admitted, and what is durable is acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch
from crawler.job.partition.inlet import Inlet, Verdict
from crawler.job.partition.link_batch_codec import LinkBatch
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
