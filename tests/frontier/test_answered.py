"""A lease whose request is over before its page is done with: what it holds, and what it does not hold any more."""

from __future__ import annotations

import pytest

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done, Lease
from crawler.frontier.request_outcome import ANSWERED
from tests.memory_store import MemoryStore

START = 1_700_000_000.0


def leased() -> tuple[Frontier, Lease, MemoryStore]:
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(), robots=False)
    frontier.load(START)
    batch = store.batch()
    frontier.admit([Entry("http://h.test/1", 0), Entry("http://h.test/2", 0)], batch)
    store.write(batch)
    frontier.written()
    lease = frontier.take(START)
    assert lease is not None
    return frontier, lease, store


def held(frontier: Frontier) -> int:
    return sum(frontier.slots_held)


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("lent", ["before", "after", "never"])
def test_a_slot_that_is_lent_is_given_back_once(lent: str, answered: bool) -> None:
    frontier, lease, store = leased()
    assert held(frontier) == 1
    if lent == "before":
        frontier.lend(lease, True)
        assert held(frontier) == 0
    if answered:
        frontier.answered(lease, ANSWERED, START + 0.5)
        assert held(frontier) == 0
    if lent == "after":
        frontier.lend(lease, True)
        assert held(frontier) == 0
    batch = store.batch()
    frontier.finish(lease, Done(ANSWERED), START + 20.0, batch)
    store.write(batch)
    if lent != "never":
        frontier.lend(lease, False)
    assert (held(frontier), frontier.leased, frontier.queued) == (0, 0, 1)
    assert frontier.next_ready() == START + (1.5 if answered else 21.0)
