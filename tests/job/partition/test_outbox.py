"""The outbox: rows go once in order, again when nobody acknowledges them, and anew in each epoch."""

from __future__ import annotations

from crawler.base.kv import Batch, Family
from crawler.job.partition.link_batch_codec import BATCH_BYTES, Ack, LinkBatch
from crawler.job.partition.outbox import AGAIN, WINDOW, Outbox
from tests.memory_store import MemoryStore

ME, PARTITIONS = 1, 4
MUCH = 2**30


class Mail:
    """An outbox, its store, and what its targets have."""

    def __init__(self, store: MemoryStore | None = None, epoch: int = 1) -> None:
        self.store = store or MemoryStore()
        self.outbox = Outbox(self.store, ME, PARTITIONS)
        if epoch:
            self.outbox.renumber(epoch)

    def put(self, target: int, *messages: bytes) -> None:
        batch = Batch()
        for message in messages:
            self.outbox.put(target, message, batch)
        self.store.write(batch)

    def acknowledge(self, ack: Ack, now: float = 0.0) -> None:
        batch = Batch()
        self.outbox.acknowledged(ack, now, batch)
        self.store.write(batch)

    def rows(self) -> list[bytes]:
        return [value for _, value in self.store.rows(Family.OUTBOX)]


def ack_of(link_batch: LinkBatch) -> Ack:
    return Ack(*link_batch[:4])


def test_all_on_the_way_is_sent_again_ever_more_seldom_until_something_arrives() -> None:
    mail = Mail()
    mail.put(0, b"a")
    first = mail.outbox.gather(0.0, MUCH)
    mail.put(0, b"b")
    both = first + mail.outbox.gather(1.0, MUCH)
    assert mail.outbox.due(AGAIN - 0.1) == []
    now = 0.0
    for wait in (2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0):
        assert mail.outbox.due(now + wait - 0.1) == []
        now += wait
        assert mail.outbox.due(now) == both
    mail.acknowledge(ack_of(first[0]), now)
    assert mail.outbox.due(now + AGAIN - 0.1) == []
    assert mail.outbox.due(now + AGAIN) == both[1:]


def test_a_batch_has_a_size_and_so_has_what_is_gathered() -> None:
    mail = Mail()
    third = b"x" * (BATCH_BYTES // 3)
    mail.put(0, *[third] * 7, b"y" * (3 * BATCH_BYTES), b"z")
    sizes = [[len(message) for message in link_batch.messages] for link_batch in mail.outbox.gather(0.0, MUCH)]
    assert sizes == [[len(third)] * 3, [len(third)] * 3, [len(third)], [3 * BATCH_BYTES], [1]]

    mail = Mail()
    for target in (0, 2, 3):
        mail.put(target, *[third] * 6)
    targets = []
    while some := mail.outbox.gather(0.0, 1):
        assert len(some) == 1
        targets.append(some[0].target)
    assert sorted(targets[:3]) == [0, 2, 3], "each has its turn"
    assert len(targets) == 6


def test_only_so_much_is_on_the_way_to_one_target() -> None:
    mail = Mail()
    mail.put(0, *[b"x" * BATCH_BYTES] * (WINDOW + 5))
    sent = mail.outbox.gather(0.0, MUCH)
    assert len(sent) == WINDOW
    assert mail.outbox.gather(0.0, MUCH) == []
    mail.acknowledge(ack_of(sent[1]))
    assert [link_batch.number for link_batch in mail.outbox.gather(0.0, MUCH)] == [WINDOW + 1, WINDOW + 2]
