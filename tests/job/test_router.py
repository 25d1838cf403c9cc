"""URLs that belong to another job: a router in front of the door sends them away before anything knows them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from crawler.base.disk import FaultyDisk
from crawler.base.kv import Batch, Family
from crawler.base.settings import PolitenessSettings, RobotsSettings, Settings
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import Outcome, PageRecord
from crawler.job.store import FaultyStore
from crawler.job.verdict import Finished
from crawler.url.urls import Canonical, host_key

SETTINGS = Settings(robots=RobotsSettings(ignore=True), politeness=PolitenessSettings(delay=0.0))


class ByHost:
    """Keeps the URLs of one host, and notes the others where the outbox of a partition would be."""

    def __init__(self) -> None:
        self.away: list[tuple[str, int, str | None]] = []

    def keeps(self, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        return [url for url in urls if host_key(url.href).startswith("a.test")]

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        kept = self.keeps(found.urls)
        for url in found.urls:
            if url not in kept:
                self.away.append((url.href, found.depth, found.via))
                batch.put(Family.META, b"outbox/" + url.href.encode(), b"")
        return kept


def urls(*hrefs: str) -> list[Canonical]:
    return [Canonical(href, href) for href in hrefs]


def test_what_a_router_sends_away_is_neither_seen_nor_queued(tmp_path: Path) -> None:
    store, router = FaultyStore(), ByHost()
    job = Job(tmp_path / "job", SETTINGS, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: store), router=router)
    try:
        away = "http://b.test/1"
        assert job.admit(Found(urls("http://a.test/", away), 0, seed=True)) == 1
        assert job.seen.contains_many(["http://a.test/", away]) == [True, False]
        assert job.frontier.queued == job.counters.pending == job.counters.admitted == 1
        assert router.away == [(away, 0, None)]

        lease = job.frontier.take(1.0)
        assert lease is not None
        assert lease.entry is not None
        done = Finished(PageRecord(lease.entry, Outcome.FETCHED, 1.0, 200))
        assert job.finish(lease, done, 1.0, outlinks=urls(away, "http://a.test/2", "http://b.test/3")) == 1
        assert router.away[1:] == [(away, 1, "http://a.test/"), ("http://b.test/3", 1, "http://a.test/")]
        assert job.frontier.queued == job.counters.pending == 1
        assert job.counters.duplicates == 0, "what is not ours is no duplicate"
        assert not any(job.seen.contains_many([away, "http://b.test/3"]))
        # What the router keeps of the others is written in the transaction that admits ours.
        assert [key for key, _ in store.rows(Family.META, b"outbox/", b"outbox0")] == [
            b"outbox/http://b.test/1",
            b"outbox/http://b.test/3",
        ]
        assert [key for key, _ in store.rows(Family.HOSTS)] == [host_key("http://a.test/").encode()]
    finally:
        job.close()


def test_without_a_router_every_url_is_ours(tmp_path: Path) -> None:
    job = Job(tmp_path / "job", SETTINGS, 0.0, Platform(FaultyDisk(random.Random(1)), lambda _: FaultyStore()))
    assert job.admit(Found(urls("http://a.test/", "http://b.test/1"), 0)) == 2
    job.close()
