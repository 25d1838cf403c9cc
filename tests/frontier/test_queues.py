"""The windows of hosts: what of their queues is in memory."""

from __future__ import annotations

from crawler.base.kv import Batch
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done, Lease
from crawler.frontier.limits import Limits, MemoryLimits
from tests.memory_store import MemoryStore

HOSTS, URLS, ROOM = 50, 40, 200


def rows(frontier: Frontier) -> list[int]:
    hosts = [frontier.known(f"h{at}.test:80") for at in range(HOSTS)]
    return [len(host.queue.window) for host in hosts if host is not None]


def finish(frontier: Frontier, lease: Lease, store: MemoryStore) -> None:
    batch = Batch()
    frontier.finish(lease, Done(), 0.0, batch)
    store.write(batch)
    frontier.written()


def test_windows_use_the_room_there_is_and_no_more() -> None:
    store, batch = MemoryStore(), Batch()
    Frontier(store, PolitenessSettings(delay=0.0), robots=False).admit(
        [Entry(f"http://h{at % HOSTS}.test/{at}", 0) for at in range(HOSTS * URLS)], batch
    )
    store.write(batch)
    frontier = Frontier(store, PolitenessSettings(delay=0.0), Limits(memory=MemoryLimits(rows=ROOM)), robots=False)
    frontier.alternate()
    frontier.load(0.0, next_number=HOSTS * URLS)
    held, seen = [], []
    for _ in range(HOSTS * URLS):
        lease = frontier.take(0.0)
        assert lease is not None
        assert lease.entry is not None
        seen.append(lease.entry.href)
        finish(frontier, lease, store)
        held.append(sum(rows(frontier)))
    # The host that is next may always have a row, whatever the others hold.
    assert max(held) <= ROOM + HOSTS
    # With equal shares of the room, 4 rows each, windows that are used up in turns would hold 75 on the whole.
    later = held[2 * HOSTS : HOSTS * URLS // 2]
    assert sum(later) / len(later) > ROOM / 2
    assert len(set(seen)) == HOSTS * URLS
    assert frontier.take(0.0) is None
