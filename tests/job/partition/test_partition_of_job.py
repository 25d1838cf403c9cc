"""What happens in jobs to URLs that belong to other partitions, however they were found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import (
    CrawlSettings,
    PolitenessSettings,
    RecrawlSettings,
    RobotsSettings,
    SeenSettings,
    Settings,
)
from crawler.frontier.entry import Entry
from crawler.frontier.sitemap_dates import Stated
from crawler.frontier.traps.copies import Content
from crawler.job.directory import JobError
from crawler.job.found import Candidate, Found, Outlinks
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import LinkBatch
from crawler.job.partition.messages import Links, decode_message
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.receiving import Receipt
from crawler.job.records import Outcome, PageRecord
from crawler.job.store.rocks import PartitionStore
from crawler.job.verdict import Draft
from crawler.url.urls.canonicaliser import Canonical

PLACEMENT = Placement(b"a secret of 16 b", 3)
SETTINGS = Settings(
    crawl=CrawlSettings(scope="host"),
    robots=RobotsSettings(ignore=True),
    politeness=PolitenessSettings(delay=0.0),
    seen=SeenSettings(kind="exact"),
)
NOW = 100.0


def hosts_of(number: int) -> list[str]:
    """Hosts of that partition."""
    names = (f"h{each}.test" for each in range(100))
    return [name for name in names if PLACEMENT.of(f"http://{name}/") == number]


A, B, C = (hosts_of(number) for number in range(3))


def url(text: str) -> Canonical:
    return Canonical(f"http://{text}", f"http://{text}")


def urls(*texts: str) -> list[Canonical]:
    return [url(text) for text in texts]


class Crowd:
    """The three partitions of a crawl, each with a job."""

    def __init__(self, directory: Path, settings: Settings = SETTINGS) -> None:
        self._directory = directory
        self._settings = settings
        self.jobs = [self.open(number) for number in range(3)]

    def open(self, number: int, **router: Any) -> Job:
        made = PartitionRouter(number, PLACEMENT, **router)
        job = Job(self._directory / f"{number:02}", self._settings, NOW, router=made)
        asyncio.run(job.begin_epoch(job.epoch + 1))
        return job

    def reopen(self, number: int) -> None:
        self.jobs[number].close()
        self.jobs[number] = self.open(number)

    def change(self, settings: Settings) -> None:
        """Begin the next run, with other settings."""
        self._settings = settings
        for number in range(3):
            self.reopen(number)

    def messages(self, sender: int = 0) -> dict[int, list[Any]]:
        """What waits in an outbox, by target."""
        found: dict[int, list[Any]] = {}
        for key, value in self.jobs[sender].store.rows(Family.OUTBOX):
            found.setdefault(int.from_bytes(key[:2], "big"), []).append(decode_message(value))
        return found

    def deliver(self, sender: int = 0, now: float = NOW) -> list[Receipt]:
        """Send all that waits, and acknowledge it."""
        job = self.jobs[sender]
        assert job.partition is not None
        receipts = []
        for link_batch in job.partition.outbox.gather(now, 2**30):
            target = self.jobs[link_batch.target]
            receipts += target.receive([link_batch], now)
            asyncio.run(target.sync())
            job.acknowledged(target.due_acks(), now)
        assert job.partition.outbox.is_empty
        return receipts

    def visit(self, number: int, *links: Canonical, **said: Any) -> PageRecord:
        """Finish the next URL of a partition."""
        job = self.jobs[number]
        lease = job.frontier.take(NOW)
        assert lease is not None
        assert lease.entry is not None
        outcome, content = said.pop("outcome", Outcome.FETCHED), said.pop("content", None)
        record = PageRecord(lease.entry, outcome, NOW, 200, content=content)
        job.finish(lease, Draft(record, links=Outlinks(len(links), [*links], **said)), NOW)
        return record

    def entries(self, number: int) -> list[Entry]:
        """What is queued in a partition, in order."""
        job = self.jobs[number]
        found = []
        while (lease := job.frontier.take(NOW)) is not None and lease.entry is not None:
            found.append(lease.entry)
        return found

    def records(self, number: int) -> list[dict[str, Any]]:
        lines = (self._directory / f"{number:02}" / "pages.jsonl").read_bytes().splitlines()
        return [msgspec.json.decode(line) for line in lines]


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    made = Crowd(tmp_path)
    yield made
    for job in made.jobs:
        job.close()


@pytest.fixture
def scored(tmp_path: Path) -> Iterator[Crowd]:
    made = Crowd(tmp_path, replace(SETTINGS, crawl=CrawlSettings(order="score")))
    yield made
    for job in made.jobs:
        job.close()


def test_links_of_a_page_go_where_they_belong(crowd: Crowd) -> None:
    job = crowd.jobs[0]
    job.admit(Found(urls(f"{A[0]}/"), 0, seed=True))
    crowd.visit(
        0, *urls(f"{B[0]}/1", f"{A[0]}/2", f"{B[1]}/3", f"{C[0]}/4"), candidates={f"http://{B[1]}/3": Candidate(2)}
    )
    assert job.counters.urls_admitted == 2
    assert job.counters.links_sent_elsewhere == 3
    assert job.counters.urls_duplicate == 0
    assert not any(job.seen.contains_many([f"http://{B[0]}/1", f"http://{C[0]}/4"]))
    (links,) = crowd.messages()[1]
    assert links == Links([f"http://{B[0]}/1", f"http://{B[1]}/3"], 1, f"http://{A[0]}/", candidates={1: Candidate(2)})
    assert [receipt.new for receipt in crowd.deliver()] == [2, 1]
    assert sorted(crowd.entries(1)) == [
        Entry(f"http://{B[0]}/1", 1, f"http://{A[0]}/", priority=1),
        Entry(f"http://{B[1]}/3", 1, f"http://{A[0]}/", priority=1, reach=2),
    ]
    other = crowd.jobs[1].counters
    assert (other.urls_admitted, other.urls_duplicate, other.links_found, other.links_sent_elsewhere) == (2, 0, 0, 0)


def test_a_filter_that_errs_loses_nothing_that_somebody_named(tmp_path: Path) -> None:
    settings = replace(SETTINGS, seen=SeenSettings(kind="scalable", ledger=False, capacity=16, fpp=0.1))
    crowd = Crowd(tmp_path, settings)
    try:
        target = crowd.jobs[1]
        target.admit(Found(urls(*(f"{B[0]}/{number}" for number in range(1_000))), 1, "http://a.test/"))
        named = urls(*(f"{B[1]}/{number}" for number in range(300)))
        crowd.jobs[0].admit(Found(named, 0, seed=True))
        (receipt,) = crowd.deliver()
        assert 0 < receipt.new < 300, "else there is nothing to show"
        for found in receipt.doubted:
            search = target.search(found.urls)
            while search.step():
                pass
            target.admit_missed(found, search)
        assert target.counters.seeds == 300
        assert target.counters.urls_admitted == 1_300
    finally:
        for job in crowd.jobs:
            job.close()


def test_importance_is_shared_among_all_links_of_a_page(scored: Crowd) -> None:
    scored.jobs[0].admit(Found(urls(f"{A[0]}/"), 0, seed=True))
    scored.visit(0, *urls(f"{A[0]}/1", f"{B[0]}/1", f"{B[1]}/2", f"{C[0]}/1"))
    scored.deliver()
    scores = [entry.score for number in range(3) for entry in scored.entries(number)]
    assert len(scores) == 4
    assert min(scores) == pytest.approx(max(scores)), "as if one process had all"
    assert min(scores) > 0


def test_links_of_a_copy_are_refused_with_a_record_where_they_belong(crowd: Crowd) -> None:
    crowd.jobs[0].admit(Found(urls(f"{A[0]}/copy"), 0, seed=True))
    copied = Content(b"d" * 16, None, f"http://{A[0]}/original")
    crowd.visit(0, content=copied, left_out=urls(f"{B[0]}/1", f"{B[0]}/2"))
    crowd.deliver()
    assert crowd.entries(1) == []
    assert [(each["url"], each["outcome"], each["depth"]) for each in crowd.records(1)] == [
        (f"http://{B[0]}/{number}", "excluded", 1) for number in (1, 2)
    ]
    assert crowd.records(1)[0]["error"].endswith(f"on a page that says the same as http://{A[0]}/original")
    assert crowd.jobs[1].counters.trap_counts == 2


def test_what_a_sitemap_says_of_pages_elsewhere_counts_there(tmp_path: Path) -> None:
    settings = replace(SETTINGS, recrawl=RecrawlSettings(enabled=True))
    crowd = Crowd(tmp_path, settings)
    try:
        page = f"http://{B[0]}/"
        said = {page: Candidate(listed=1.0, stated=Stated(NOW + 10, NOW + 20, 1))}
        crowd.jobs[0].admit(Found(urls(f"{B[0]}/"), 1, "http://a.test/map.xml", found_at=NOW, candidates=said))
        crowd.deliver()
        (entry,) = crowd.entries(1)
        assert (entry.changefreq, entry.priority < 4) == (1, True)
    finally:
        for job in crowd.jobs:
            job.close()


def test_a_run_with_another_scope_has_it_in_all_partitions(tmp_path: Path) -> None:
    """The scope of the first run never grows. In the next one, all know what the seeds of one partition stand for."""
    seeds = [f"http://{A[0]}/x/", f"http://www.{A[0]}/y/"]
    inside = {"host": [True, True], "domain": [True, True], "prefix": [False, False], "any": [True, True]}
    crowd = Crowd(tmp_path, replace(SETTINGS, crawl=replace(SETTINGS.crawl, scope="any")))
    for seed in seeds:
        assert not crowd.jobs[0].widen(seed)
    crowd.jobs[0].admit(Found(urls(f"{A[0]}/x/"), 0, seed=True))
    assert crowd.messages() == {}
    for scope in ("host", "any", "prefix", "domain", "domain"):
        crowd.change(replace(SETTINGS, crawl=replace(SETTINGS.crawl, scope=scope)))
        told = bool(crowd.messages())
        crowd.deliver()
        for job in crowd.jobs:
            assert [job.scope.contains(f"{seed.rpartition('/')[0][:-2]}/z") for seed in seeds] == inside[scope]
            assert all(job.scope.contains(seed) for seed in seeds)
            assert job.scope.contains("http://elsewhere.test/") == (scope == "any")
        assert crowd.messages(1) == crowd.messages(2) == {}, "who was told does not tell others"
    assert not told, "it is told once"
    for job in crowd.jobs:
        job.close()


# -- batches -------------------------------------------------------------------------------------------------------


def batch_to(job: Job, *messages: bytes, number: int = 1, epoch: int = 1) -> LinkBatch:
    assert job.partition is not None
    return LinkBatch(0, job.partition.me, epoch, number, list(messages))


@pytest.mark.parametrize(
    ("message", "verdict", "error"),
    [
        (msgspec.msgpack.encode([77, "x"]), Verdict.UNKNOWN, "message of unknown kind 77, from a newer version"),
        (b"\xc1", Verdict.DAMAGED, "not a message"),
        (msgspec.msgpack.encode([1, ["a"], 1, None, True, False, 0, {}, 0.0, None, {4: []}]), Verdict.DAMAGED, "URL"),
    ],
)
def test_a_batch_that_cannot_be_read_is_left_as_a_whole(
    crowd: Crowd, message: bytes, verdict: Verdict, error: str
) -> None:
    job = crowd.jobs[1]
    good = msgspec.msgpack.encode(Links([f"http://{B[0]}/"], 1))
    before = job.writer.commits
    (receipt,) = job.receive([batch_to(job, good, message)], NOW)
    assert receipt.verdict is verdict
    assert error in str(receipt.error)
    asyncio.run(job.sync())
    assert (job.counters.urls_admitted, job.writer.commits, job.due_acks()) == (0, before, [])


def test_a_batch_is_acknowledged_after_the_sync_and_again_when_it_comes_again(crowd: Crowd) -> None:
    job = crowd.jobs[1]
    link_batch = batch_to(job, msgspec.msgpack.encode(Links([f"http://{B[0]}/"], 1)))
    job.receive([link_batch], NOW)
    assert job.due_acks() == []
    asyncio.run(job.sync())
    (ack,) = job.due_acks()
    assert tuple(ack) == (0, 1, 1, 1)
    job.receive([link_batch], NOW)
    assert job.due_acks() == [ack]


def test_epochs_are_stored_and_rise(crowd: Crowd) -> None:
    assert crowd.jobs[0].epoch == 1
    crowd.reopen(0)
    assert crowd.jobs[0].epoch == 2
    asyncio.run(crowd.jobs[0].begin_epoch(9))
    for epoch in (2, 9):
        with pytest.raises(ValueError, match="does not follow 9"):
            asyncio.run(crowd.jobs[0].begin_epoch(epoch))
    crowd.reopen(0)
    assert crowd.jobs[0].epoch == 10


# -- the job of a partition ----------------------------------------------------------------------------------------


def open_as(directory: Path, number: int | None, partitions: int = 3) -> Job:
    if number is None:
        return Job(directory, SETTINGS, NOW)
    return Job(directory, SETTINGS, NOW, router=PartitionRouter(number, Placement(PLACEMENT.secret, partitions)))


@pytest.mark.parametrize(
    ("made", "opened", "words"),
    [
        ((1, 3), (None, 3), "is partition 1 of 3 of a crawl, not an unpartitioned crawl"),
        ((1, 3), (2, 3), "is partition 1 of 3 of a crawl, not partition 2 of 3"),
        ((1, 3), (1, 4), "is partition 1 of 3 of a crawl, not partition 1 of 4"),
        ((None, 3), (1, 3), "is an unpartitioned crawl, not partition 1 of 3"),
    ],
)
def test_a_partition_is_opened_as_what_it_is(
    tmp_path: Path, made: tuple[int | None, int], opened: tuple[int | None, int], words: str
) -> None:
    directory = tmp_path / "job"
    open_as(directory, *made).close()
    with pytest.raises(JobError, match=words):
        open_as(directory, *opened)
    open_as(directory, *made).close()


def test_only_partitions_have_the_families(tmp_path: Path) -> None:
    open_as(tmp_path / "whole", None).close()
    open_as(tmp_path / "part", 1).close()
    whole, part = (read_identity(tmp_path / name) for name in ("whole", "part"))
    assert (whole.partition, part.partition) == (None, (1, 3))
    with pytest.raises(OSError, match="does not name the family"):
        PartitionStore(tmp_path / "whole" / "store")
    store = PartitionStore(tmp_path / "part" / "store")
    assert store.scan(Family.OUTBOX, b"") == []
    store.close()
