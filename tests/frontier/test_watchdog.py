"""The watchdog names a host whose state in memory is wrong, and no other. That it names none as long as the state is
right is an invariant of the machine in ``test_machine``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import Host, host_name
from crawler.frontier.lease import Done, Lease
from tests.memory_store import MemoryStore

START = 1_700_000_000.0


class Crawl:
    """A frontier of three hosts that is served by hand."""

    def __init__(self, per_host: int = 1) -> None:
        self.store, self.now = MemoryStore(), START
        self.frontier = Frontier(self.store, PolitenessSettings(delay=1.0, per_host=per_host), robots=False)
        batch = self.store.batch()
        self.frontier.admit([Entry(f"http://{n}.test/{page}", 0) for page in range(50) for n in "abc"], batch)
        self.store.write(batch)

    def take(self) -> list[Lease]:
        leases = []
        while (lease := self.frontier.take(self.now)) is not None:
            leases.append(lease)
        return leases

    def finish(self, leases: list[Lease]) -> None:
        for lease in leases:
            batch = self.store.batch()
            self.frontier.finish(lease, Done(), self.now, batch)
            self.store.write(batch)

    def go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            leases = self.take()
            self.now += 0.5
            self.finish(leases)
            self.now += 1.0

    def named(self, *, serving: bool = True) -> list[str]:
        watchdog = self.frontier.watchdog
        limits = watchdog.limits(self.now, serving=serving)
        rows = self.store.scan(Family.HOSTS, b"")
        return [host_name(key) for key, value in rows if watchdog.overlooks(host_name(key), value, limits)]

    def host(self, name: str) -> Host:
        host = self.frontier.known(name)
        assert host is not None
        return host


def _phantom_leases(host: Host, per_host: int) -> None:
    host.leased = host.queue.taken = per_host


def _phantom_side_request(host: Host, _: int) -> None:
    host.side_request = True


@pytest.mark.parametrize("spoil", [_phantom_leases, _phantom_side_request])
@pytest.mark.parametrize("per_host", [1, 2])
def test_a_host_whose_state_was_written_to_is_named(spoil: Callable[[Host, int], None], per_host: int) -> None:
    crawl = Crawl(per_host)
    crawl.go_on(3)
    assert crawl.named() == []
    crawl.finish(crawl.take())
    spoil(crawl.host("b.test:80"), per_host)
    crawl.go_on(6)
    assert crawl.named() == ["b.test:80"]
    assert crawl.named(serving=False) == ["b.test:80"]
