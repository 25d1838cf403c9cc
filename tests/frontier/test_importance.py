"""Order by score: important pages are fetched earlier than by breadth, and the score adds up."""

from __future__ import annotations

import pytest

from crawler.base.kv import Family
from crawler.base.settings import PolitenessSettings
from crawler.frontier import SEED_SCORE, Done, Entry, Frontier, Order, decode_host
from crawler.frontier.importance import CELLS, LEVELS, Importance
from crawler.job.store import MemoryStore
from tests.frontier.hosts import made_host
from tests.frontier.web_graph import START, WebGraph, crawled, early


@pytest.mark.parametrize("seed", [1, 2])
def test_important_pages_are_fetched_earlier_than_by_breadth(seed: int) -> None:
    """By PageRank, of a polite crawl: `benchmarks/frontier/order.py` has the figures (about an eighth more)."""
    web = WebGraph(hosts=60, pages=40, links=8, seed=seed)
    fetched = {order: crawled(web, order, delay=1.0) for order in Order}
    for found in fetched.values():
        assert sorted(found) == sorted(web.reachable()), "whatever the order, every page is fetched once"
    assert len({tuple(found) for found in fetched.values()}) == len(Order)
    for part in (0.1, 0.2):
        assert early(web, fetched[Order.SCORE], part) > 1.03 * early(web, fetched[Order.BREADTH], part)
        assert early(web, fetched[Order.DEPTH], part) < early(web, fetched[Order.BREADTH], part)


def test_a_link_to_a_known_url_brings_it_forward() -> None:
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(delay=0.0), order=Order.SCORE, robots=False)
    batch = store.batch()
    frontier.admit([Entry(f"http://h.test/{n}", 1, priority=3, score=0.1) for n in range(5)], batch)
    frontier.credit(["http://h.test/3", "http://h.test/3", "http://nobody.test/"], 0.2, batch)
    store.write(batch)
    lease = frontier.take(START)
    assert lease is not None
    assert lease.entry is not None
    assert lease.entry.href == "http://h.test/3"
    assert frontier.share(lease) == pytest.approx(0.5)
    assert store.get(Family.HOSTS, b"nobody.test:80") is None, "a host that was never admitted to is not made up"
    batch = store.batch()
    frontier.finish(lease, Done(), START, batch)
    store.write(batch)
    stored = store.get(Family.HOSTS, b"h.test:80")
    assert stored is not None
    assert decode_host("h.test:80", stored).tally.opic_score == pytest.approx(0.4), "what the page had goes with it"


def test_without_order_by_score_nothing_is_handed_on() -> None:
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(delay=0.0), robots=False)
    batch = store.batch()
    frontier.admit([Entry("http://h.test/", 0, seed=True)], batch)
    frontier.credit(["http://h.test/"], SEED_SCORE, batch)
    store.write(batch)
    lease = frontier.take(START)
    assert lease is not None
    assert frontier.share(lease) == 0.0
    assert lease.host.tally.opic_score == 0.0


@pytest.mark.parametrize(("score", "expected"), [(0.0, 3 + LEVELS), (0.4, 4), (1.0, 3), (1.9, 3), (2.0, 2), (500.0, 0)])
def test_a_host_stands_a_class_forward_for_each_factor_of_four(score: float, expected: int) -> None:
    importance = Importance(active=True)
    host = made_host("h.test", size=1, retry_size=1, retries_waiting=1, retry_class=3, opic_score=score)
    importance.total = 1_000.0
    assert importance.front(host, host.queue.front, 1_000) == expected


def test_old_links_count_for_less_and_less() -> None:
    importance = Importance(active=True)
    entry = Entry("http://h.test/", 1)
    importance.credit(entry.href, 8.0)
    assert importance.opic_score(entry) == 8.0
    for _ in range(CELLS - 1):
        importance.credit("http://h.test/other", 0.0)
    assert importance.opic_score(entry) == 4.0
