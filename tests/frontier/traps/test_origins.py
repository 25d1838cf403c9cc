"""Ports of a name and hosts of a domain: what is refused, and what is dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import FetchSettings, TrapSettings
from crawler.frontier.host import Host, encode_host
from crawler.frontier.traps.origins import Origins
from crawler.frontier.traps.traps import check_row
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.urls.host_key import host_key
from tests.memory_store import MemoryStore
from tests.traps import limit_traps


@dataclass(frozen=True)
class Link:
    href: str


@pytest.fixture(autouse=True)
def _low(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_traps(monkeypatch, max_ports=3, max_records=5)


class Web:
    """Queues what is not refused, as a crawl would: one batch for each page, which also meets the hosts."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.most = 4
        self.counted = self.dropped = 0
        self.queued: list[str] = []
        self.refused: dict[str, Rule] = {}
        self.dropped_by = Counter[str]()
        self.restart()

    def restart(self) -> None:
        self.origins = Origins(TrapSettings(max_hosts=self.most), FetchSettings(), self.store)

    def meet(self, href: str, batch: Batch) -> None:
        name = host_key(href)
        self.queued.append(href)
        batch.put(Family.HOSTS, name.encode(), encode_host(Host(name)))

    def page(self, *hrefs: str) -> None:
        links = self.origins.open_links([Link(href) for href in hrefs], self.dropped_by)
        self.dropped += len(hrefs) - len(links)
        assert self.dropped_by.total() == self.dropped
        batch = Batch()
        found, grown = self.origins.refusals([link.href for link in links], batch)
        self.counted += grown
        for link, refusal in zip(links, found, strict=True):
            if refusal is None:
                self.meet(link.href, batch)
            else:
                self.refused[link.href] = refusal.rule
        self.store.write(batch)
        assert sum(check_row(*row) for row in self.store.rows(Family.TRAPS)) == self.counted


def ports(*numbers: int, path: str = "") -> list[str]:
    return [f"http://a.test:{number}/{path}" for number in numbers]


def test_ports_of_one_name() -> None:
    web = Web()
    web.page(*ports(*range(22_000, 22_300)))
    assert web.queued == ports(22_000, 22_001, 22_002)
    assert set(web.refused.values()) == {Rule.TOO_MANY_PORTS}
    web.page(*ports(*range(3000, 3010)), "http://b.test/")
    assert web.dropped == 10, "closed: dropped without a lookup"
    assert web.dropped_by == {"traps.max_ports": 10}
    assert web.queued[3:] == ["http://b.test/"]


def test_a_port_that_is_known_stays_open() -> None:
    web = Web()
    web.page(*ports(*range(22_000, 22_010)))
    web.page(*ports(22_000, 22_001, path="x"))
    web.restart()
    web.page(*ports(22_002, path="y"))
    assert web.queued[3:] == [*ports(22_000, 22_001, path="x"), *ports(22_002, path="y")]


def test_hosts_of_one_domain() -> None:
    web = Web()
    web.page(*(f"http://h{n}.wild.test/" for n in range(300)), "http://wild.test/", "http://a.other.test/")
    assert web.queued == [*(f"http://h{n}.wild.test/" for n in range(4)), "http://wild.test/", "http://a.other.test/"]
    assert set(web.refused.values()) == {Rule.TOO_MANY_HOSTS}
    web.page("http://h1.wild.test/x", "http://h301.wild.test/")
    assert web.dropped == 1
    assert web.queued[-1] == "http://h1.wild.test/x"
