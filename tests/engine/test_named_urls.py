"""URLs that somebody names are admitted if they are new, also when the seen-set calls them seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import SeenSettings
from crawler.engine.injector import Injector
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.reading import Reading
from crawler.frontier.entry import decode_entry
from crawler.job.found import Found
from crawler.job.inbox import Answer, Inbox
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.recovery import stored_counters
from crawler.url.urls.canonicaliser import canonicalise
from tests.durability.power import Inline
from tests.jobs import findings
from tests.laboratory import SETTINGS, START, Laboratory
from tests.memory_store import MemoryStore

FULL = SeenSettings(kind="bloom", capacity=8, fpp=0.5, ledger=False)  # after some thousand URLs, most bits are set
BOTH = [FULL, replace(FULL, ledger=True)]  # the journal is searched, or the ledger asked
PAGES = {f"http://a.test/{number}": f"<p>{number}" for number in range(400)}
LINKS = [canonicalise(f"http://b.test/{number}") for number in range(4_000)]


def opened(directory: Path, store: MemoryStore, seen: SeenSettings = FULL) -> Job:
    settings = replace(SETTINGS, seen=seen)
    return Job(directory, settings, START, Platform(open_store=lambda _: store, executor=Inline))


@pytest.mark.parametrize(("seen", "seed"), list(zip(BOTH, [False, True], strict=True)), ids=["journal", "ledger"])
def test_added_urls_are_never_lost_to_a_false_positive(tmp_path: Path, seed: bool, seen: SeenSettings) -> None:
    store = MemoryStore()
    job = opened(tmp_path, store, seen)
    job.admit(Found(LINKS, 1, "http://b.test/", found_at=START))
    found = [canonicalise(href) for href in PAGES]
    assert sum(job.seen.contains_many([url.key for url in found])) > len(found) // 2, "the seen-set is full"
    discovery = Discovery(job, replace(SETTINGS, seen=FULL), Reading())
    injector = Injector(job, discovery, Inbox(tmp_path, job.disk), lambda: None)
    assert asyncio.run(injector.take_in([*PAGES, next(iter(PAGES))], seed=seed)) == Answer(len(PAGES), 1)
    assert asyncio.run(injector.take_in(list(PAGES), seed=seed)) == Answer(0, len(PAGES))
    assert job.counters.seeds == (len(PAGES) if seed else 0)
    job.close()
    assert findings(tmp_path, store, stored_counters(store), replace(SETTINGS, seen=seen)) == []
    job = opened(tmp_path, store, seen)
    assert job.counters.pending == job.frontier.queued == job.counters.urls_admitted
    job.close()


@pytest.mark.parametrize("seen", BOTH, ids=["journal", "ledger"])
def test_seeds_are_never_lost_to_a_false_positive(tmp_path: Path, seen: SeenSettings) -> None:
    lab = Laboratory(tmp_path, dict(PAGES), replace(SETTINGS, seen=seen)).with_politeness(delay=0.0, per_host=8)
    lab.run(*PAGES)
    assert {record["url"] for record in lab.records()} == set(PAGES)
    lab.run(*PAGES)
    assert len(lab.asked) == len(PAGES)


@pytest.mark.parametrize("seen", BOTH, ids=["journal", "ledger"])
def test_added_urls_get_the_class_that_is_given(tmp_path: Path, seen: SeenSettings) -> None:
    store = MemoryStore()
    job = opened(tmp_path, store, seen)
    job.admit(Found(LINKS, 1, "http://b.test/", found_at=START))
    assert any(job.seen.contains_many([canonicalise(href).key for href in PAGES]))
    inbox = Inbox(tmp_path, job.disk)
    inbox.deposit(list(PAGES), seed=True, answer=False, priority=7)
    injector = Injector(job, Discovery(job, replace(SETTINGS, seen=FULL), Reading()), inbox, lambda: None)
    asyncio.run(injector.drain(START))
    entries = [decode_entry(value) for _, value in store.rows(Family.PENDING)]
    assert Counter(entry.priority for entry in entries if entry.href in PAGES) == {7: len(PAGES)}
    assert not inbox.waiting()
    job.close()
