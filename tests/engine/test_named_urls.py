"""URLs that somebody names are admitted if they are new, also when the seen-set calls them seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.kv import Batch, Family
from crawler.base.settings import SeenSettings
from crawler.engine.discover import Discovery
from crawler.engine.injector import Injector
from crawler.engine.reading import Reading
from crawler.engine.turns import SHARE, Turns
from crawler.frontier import decode_entry
from crawler.job.checkpoint import EnvelopeError
from crawler.job.found import Found
from crawler.job.inbox import Answer, Inbox
from crawler.job.job import Job
from crawler.job.journal_search import JournalSearch
from crawler.job.platform import Platform
from crawler.job.records import DIGEST_SIZE, encode_admitted, encode_forgotten, sequence_key
from crawler.job.recovery import stored_counters
from crawler.job.store import MemoryStore
from crawler.url.urls import canonicalise
from tests.durability.power import Inline
from tests.jobs import findings
from tests.laboratory import SETTINGS, START, Laboratory
from tests.program import crawler

FULL = SeenSettings(kind="bloom", capacity=8, fpp=0.5, ledger=False)  # after some thousand URLs, most bits are set
BOTH = [FULL, replace(FULL, ledger=True)]  # the journal is searched, or the ledger asked
PAGES = {f"http://a.test/{number}": f"<p>{number}" for number in range(400)}
LINKS = [canonicalise(f"http://b.test/{number}") for number in range(4_000)]


def opened(directory: Path, store: MemoryStore, seen: SeenSettings = FULL) -> Job:
    settings = replace(SETTINGS, seen=seen)
    return Job(directory, settings, START, Platform(open_store=lambda _: store, executor=Inline))


@pytest.mark.parametrize("seen", BOTH, ids=["journal", "ledger"])
@pytest.mark.parametrize("seed", [False, True])
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
    assert job.counters.pending == job.frontier.queued == job.counters.admitted
    job.close()


@pytest.mark.parametrize("seen", BOTH, ids=["journal", "ledger"])
def test_seeds_are_never_lost_to_a_false_positive(tmp_path: Path, seen: SeenSettings) -> None:
    lab = Laboratory(tmp_path, dict(PAGES), replace(SETTINGS, seen=seen)).with_politeness(delay=0.0, per_host=8)
    lab.run(*PAGES)
    assert {record["url"] for record in lab.records()} == set(PAGES)
    lab.run(*PAGES)
    assert len(lab.asked) == len(PAGES)


def test_a_search_reads_what_was_admitted_and_forgotten() -> None:
    digests = [bytes([number]) * DIGEST_SIZE for number in range(6)]
    store, batch = MemoryStore(), Batch()
    events = [encode_admitted(digests[0] + digests[1]), encode_forgotten(digests[1]), encode_admitted(digests[2])]
    for number, event in enumerate(events):
        batch.put(Family.ADMITTED, sequence_key(number), event)
    store.write(batch)
    search = JournalSearch(store, b"".join([*digests[:4], digests[3]]))
    assert not search.step()
    more = Batch()
    more.put(Family.ADMITTED, sequence_key(3), encode_admitted(digests[1]))
    store.write(more)
    assert search.missing() == [3], "what was admitted meanwhile is found too"


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


def test_a_class_that_there_is_not_is_refused(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, RealDisk())
    for priority in (8, -1, True, "3"):
        name = inbox.deposit(list(PAGES)[:1], seed=True, answer=False, priority=priority)  # type: ignore[arg-type]
        with pytest.raises(EnvelopeError, match="not a class from 0 to 7"):
            inbox.read(name)


def test_the_command_gives_the_class(tmp_path: Path) -> None:
    opened(tmp_path, MemoryStore()).close()
    ran = crawler("add", tmp_path, "--no-wait", "--priority", "3", "http://a.test/")
    assert ran.code == 0, ran
    inbox = Inbox(tmp_path, RealDisk())
    assert [inbox.read(name).priority for name in inbox.waiting()] == [3]
    assert crawler("add", tmp_path, "--priority", "8", "http://a.test/").code == 2


def test_visits_keep_most_of_the_time_while_seeds_are_read(tmp_path: Path) -> None:
    """A batch of seeds takes as long as all visits may take in one pass of the loop."""
    job, now, visited = opened(tmp_path, MemoryStore()), 0.0, list[float]()
    turns = Turns(SHARE, lambda: now)

    async def seeds() -> AsyncIterator[list[str]]:
        nonlocal now
        for number in range(100):
            now += SHARE
            yield [f"http://a.test/{number}"]
            await asyncio.sleep(0)

    async def visit() -> None:
        nonlocal now
        await turns.turn()
        now += SHARE / 10
        visited.append(now)

    async def crawl() -> None:
        discovery = Discovery(job, replace(SETTINGS, seen=FULL), Reading())
        injector = Injector(job, discovery, Inbox(tmp_path, job.disk), lambda: None, turns)
        await asyncio.gather(injector.admit_seeds(seeds()), *(visit() for _ in range(200)))

    asyncio.run(crawl())
    job.close()
    alone = 200 * SHARE / 10
    assert max(visited) <= 2 * alone, "the seeds took no more time than the visits"
    assert now >= 100 * SHARE, "all seeds are read"
