"""The ledger: whatever a filter calls seen by mistake is found out, once, also across crashes."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.kv import Family
from crawler.frontier.entry import Entry
from crawler.seen.exact.ledger import LEDGER_COUNTS, Ledger, LedgerCounts
from crawler.seen.exact.rows import HOST_BYTES
from crawler.seen.filters import SEED_ZERO, BloomFilter
from tests.examples import TIMES
from tests.memory_store import MemoryStore


def url(number: int) -> str:
    return f"https://h{number % 3}.test/{number}"


class Doubting:
    """A filter of 128 bits, which is soon wrong more often than right, its ledger, and what both together admitted."""

    def __init__(self, waiting: int, settled: int) -> None:
        self.store = MemoryStore()
        self.seen = BloomFilter.with_geometry(128, 1)
        self.sizes = {"waiting": waiting, "settled": 256 * settled}
        self.admitted: list[str] = []
        self.reopen()

    def reopen(self) -> None:
        """As after a kill: what was written is there, nothing else."""
        self.ledger = Ledger(self.store, **self.sizes)

    def meet(self, keys: list[str]) -> None:
        digests = SEED_ZERO.digest_keys(keys)
        new = self.seen.add_digests(digests)
        batch = self.store.batch()
        self.ledger.note(keys, digests, new, lambda at: Entry(keys[at], at), batch)
        self.store.write(batch)
        self.admitted += [keys[at] for at in new]

    def decide(self, limit: int) -> None:
        batch = self.store.batch()
        missed = self.ledger.decide(limit, batch)
        self.store.write(batch)
        for digest, entry in missed:
            assert digest == SEED_ZERO.digest_keys([entry.href])
            self.seen.restore(digest)
        self.admitted += [entry.href for _, entry in missed]

    def counts_agree(self) -> None:
        stored = LedgerCounts.decode(self.store.get(Family.META, LEDGER_COUNTS))
        assert stored == self.ledger.counts
        assert stored.waiting == len(self.store.scan(Family.LEDGER, b""))


acts = st.lists(
    st.one_of(
        st.lists(st.integers(0, 120).map(url), min_size=1, max_size=20),
        st.integers(1, 9),
        st.just("reopen"),
    ),
    max_size=40,
)


@settings(max_examples=44 * TIMES)
@given(done=acts, waiting=st.integers(1, 30), settled=st.integers(1, 30))
def test_every_url_is_admitted_once_whatever_the_filter_says(
    done: list[list[str] | int | str], waiting: int, settled: int
) -> None:
    doubting = Doubting(waiting, settled)
    met: set[str] = set()
    for act in done:
        match act:
            case list(keys):
                doubting.meet(keys)
                met.update(keys)
            case int(limit):
                doubting.decide(limit)
            case _:
                doubting.reopen()
        doubting.counts_agree()
    while doubting.ledger.counts.waiting:
        doubting.decide(5)
    assert sorted(doubting.admitted) == sorted(met)
    rows = [row for row, _ in doubting.store.scan(Family.SEEN, b"")]
    assert {row[HOST_BYTES:] for row in rows} == {SEED_ZERO.digest_keys([key]) for key in met}
    assert len(rows) == len(met)
    assert not doubting.store.scan(Family.LEDGER, b"")


def test_repeated_links_are_written_down_once_or_not_at_all() -> None:
    """Of 100,000 links to 300 URLs each is doubted once at most: the others are settled."""
    doubting = Doubting(waiting=1000, settled=1000)
    chance = random.Random(3)
    for _ in range(1000):
        doubting.meet([url(chance.randrange(300)) for _ in range(100)])
    counts = doubting.ledger.counts
    assert counts.waiting + len(doubting.admitted) == 300
    assert counts.waiting > 30
    mistaken = counts.waiting
    doubting.decide(300)
    assert counts == LedgerCounts(0, 0, mistaken)
    doubting.reopen()
    doubting.meet([url(number) for number in range(300)])
    assert doubting.ledger.counts.waiting == 300, "after a restart nothing is remembered: each is confirmed once more"
    doubting.decide(300)
    assert doubting.ledger.counts.confirmed == 300
