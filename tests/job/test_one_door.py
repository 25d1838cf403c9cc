"""Every change of a job goes through its transaction writer."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.base.clock import Anchor
from crawler.base.kv import Batch, Family, Store
from crawler.base.settings.parts import PolitenessSettings, RecrawlSettings, RobotsSettings, SeenSettings, Settings
from crawler.frontier.entry import Entry
from crawler.job import transaction
from crawler.job.checkpointer import drive
from crawler.job.found import Found, Outlinks
from crawler.job.job import Job
from crawler.job.output import Outputs
from crawler.job.platform import Platform
from crawler.job.records import Outcome, PageRecord
from crawler.job.step_log import StepLog
from crawler.job.steps.step_codec import START
from crawler.job.transaction import RecordSink, TransactionWriter
from crawler.job.verdict import Draft
from crawler.url.urls.canonicaliser import Canonical
from tests.faulty_disk import FaultyDisk
from tests.faulty_store import FaultyStore
from tests.memory_store import MemoryStore

DOOR = Path(transaction.__file__)


class Watched(FaultyStore):
    """Lets nobody in but through the door."""

    writes = 0

    def write(self, batch: Batch) -> None:
        asking = Path(sys._getframe(1).f_code.co_filename)
        assert asking in (DOOR, Path(sys.modules[FaultyStore.__module__].__file__ or "")), f"{asking} writes by itself"
        self.writes += 1
        super().write(batch)


@pytest.mark.parametrize("seen", [SeenSettings(), SeenSettings(kind="exact"), SeenSettings(ledger=True)])
def test_a_job_at_work_writes_through_the_door_only(tmp_path: Path, seen: SeenSettings) -> None:
    store, disk = Watched(), FaultyDisk(random.Random(1))
    settings = Settings(
        seen=seen,
        robots=RobotsSettings(ignore=True),
        politeness=PolitenessSettings(delay=0.0),
        recrawl=RecrawlSettings(enabled=True),
    )
    for run in range(3):
        now = 1_000.0 * run
        anchor = Anchor("the same boot", 60.0 * run)  # a clock that is set between the runs
        job = Job(tmp_path / "job", settings, now, Platform(disk, lambda _: store), anchor)
        urls = [Canonical(href, href) for href in (f"http://a.test/{run}/{number}" for number in range(20))]
        assert job.admit(Found(urls, 0)) == 20
        for number in range(10):
            lease = job.frontier.take(now + number)
            assert lease is not None
            assert lease.entry is not None
            done = Draft(PageRecord(lease.entry, Outcome.FETCHED, now + number, 200), links=Outlinks(3, urls[:3]))
            job.finish(lease, done, now + number)
        if job.doubted:
            job.decide(100, now)
        drive(job.checkpointer.checkpoint(now, whole=True))  # trims the journal
        job.close()
    assert store.writes > 3 * 11, "more than its transactions: what opens and trims it goes through the door, too"


def written_by(outputs: Outputs, log: StepLog, store: Store, seal: Callable[[Batch], None]) -> TransactionWriter:
    return TransactionWriter(RecordSink(outputs, logs=True), log, store, seal, lambda: None)


def test_what_failed_is_written_again_and_each_part_once(tmp_path: Path) -> None:
    store, log = FaultyStore(), StepLog(7)
    log.keep()

    def seal(batch: Batch) -> None:
        batch.put(Family.META, b"sealed", b"")

    outputs = Outputs(tmp_path / "pages.jsonl", FaultyDisk(random.Random(1)), 2**30)
    writer = written_by(outputs, log, store, seal)
    store.fail_next_write = 28
    record = PageRecord(Entry("http://a.test/", 0), Outcome.FETCHED, 1.0, 200)
    with writer as change:
        change.batch.put(Family.HOSTS, b"h", b"1")
        change.records.append((7, record, ()))
    assert writer.blocked is not None
    assert writer.in_transaction
    assert log.mark == START, "what the store lacks is no step"
    with pytest.raises(RuntimeError, match="no other may follow"), writer:
        pass
    assert writer.write_again()
    assert store.get(Family.HOSTS, b"h") == b"1"
    line = (tmp_path / "pages.jsonl").read_bytes()
    assert line.count(b"\n") == 1, "the record was written once"
    chunk = log.after(START, 0, 2**20)
    assert chunk is not None
    (step,) = chunk.steps
    names = [family.value for family, *_ in Batch.decode(step.batch).changes]
    assert names == ["hosts", "meta", "meta", "done"], "its own change, the seal, its number, its record"
    assert [each.data for each in step.written] == [line]
    writer.sync()
    outputs.close()


def test_a_transaction_that_is_broken_off_is_not_written(tmp_path: Path) -> None:
    store = MemoryStore()
    outputs = Outputs(tmp_path / "pages.jsonl", FaultyDisk(random.Random(1)), 2**30)
    writer = written_by(outputs, StepLog(), store, lambda batch: None)

    def broken_off() -> None:
        with writer as change:
            change.batch.put(Family.HOSTS, b"h", b"1")
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        broken_off()
    assert store.get(Family.HOSTS, b"h") is None
    assert not writer.whole
    assert writer.commits == 0
    with pytest.raises(RuntimeError, match="no other may follow"), writer:
        pass
