"""``verify`` and ``repair`` of what a partition keeps for others, and of others."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import Settings
from crawler.inspect.integrity.finding import Change, Done, Finding, Kind
from crawler.inspect.integrity.repairer import repair_job
from crawler.inspect.integrity.verifier import verify_job
from crawler.job.directory import IDENTITY, STORE
from crawler.job.found import Found
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.partition import inlet, outbox
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import LinkBatch
from crawler.job.partition.placement import Placement
from crawler.job.partition.router import PartitionRouter
from crawler.job.receiving import EPOCH
from crawler.job.store.rocks import PartitionStore
from crawler.url.urls.canonicaliser import Canonical

PLACEMENT = Placement(b"a secret of 16 b", 2)
SETTINGS = Settings()
ROWS = 5


def opened(directory: Path) -> Job:
    return Job(directory, SETTINGS, 0.0, router=PartitionRouter(0, PLACEMENT))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A partition with messages for the other one, which has sent a batch."""
    made = opened(tmp_path / "job")
    hrefs = [href for number in range(60) if PLACEMENT.of(href := f"http://h{number}.test/") == 1]
    asyncio.run(made.begin_epoch(3))
    for href in hrefs[:ROWS]:
        made.admit(Found([Canonical(href, href)], 1, "http://a.test/", found_at=1.0))
    assert made.receive([LinkBatch(1, 0, 7, 1, [])], 1.0)[0].verdict is Verdict.ADMITTED
    asyncio.run(made.sync())
    made.close()
    return tmp_path / "job"


def change(job: Path, batch: Batch) -> None:
    store = PartitionStore(job / STORE)
    store.write(batch)
    store.sync()
    store.close()


def found_in(job: Path) -> list[Kind]:
    return [finding.kind for finding in verify_job(job)]


def repaired(job: Path) -> tuple[list[Change], list[Finding]]:
    changes: list[Change] = []
    left = repair_job(job, 5.0, changes.append).left
    return changes, left


def messages(job: Path) -> list[tuple[int, int]]:
    with_rows = opened(job)
    rows = [outbox.read_key(key) for key, _ in with_rows.store.rows(Family.OUTBOX)]
    with_rows.close()
    return rows


def test_a_whole_partition_is_whole(job: Path) -> None:
    assert found_in(job) == []
    assert messages(job) == [(1, number) for number in range(1, ROWS + 1)]


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        (Family.OUTBOX, outbox.row_key(1, 6), b"\xc1"),
        (Family.OUTBOX, outbox.row_key(0, 1), b"\x92\x02\x90"),
        (Family.OUTBOX, outbox.row_key(2, 1), b"\x92\x02\x90"),
        (Family.OUTBOX, b"key", b"\x92\x02\x90"),
        (Family.INLET, inlet.row_key(1), b"short"),
        (Family.INLET, inlet.row_key(5), b"\x01" + bytes(16)),
    ],
)
def test_a_damaged_row_is_found_and_removed(job: Path, family: Family, key: bytes, value: bytes) -> None:
    batch = Batch()
    batch.put(family, key, value)
    change(job, batch)
    assert [(each.kind, each.family) for each in verify_job(job)] == [(Kind.ROW_DAMAGED, family)]
    changes, left = repaired(job)
    assert left == []
    assert Done.ROWS_REMOVED in [each.done for each in changes]
    assert messages(job) == [(1, number) for number in range(1, ROWS + 1)]
    assert read_identity(job).partition == (0, 2)


def test_messages_that_are_missing_are_found_and_the_gap_is_closed(job: Path) -> None:
    batch = Batch()
    batch.delete(Family.OUTBOX, outbox.row_key(1, 2))
    batch.put(Family.OUTBOX, outbox.row_key(1, 4), b"damaged")
    change(job, batch)
    (missing, damaged) = list(verify_job(job))
    assert (missing.kind, missing.details) == (Kind.MESSAGES_MISSING, {"target": 1, "number": 3, "missing": 1})
    assert damaged.kind is Kind.ROW_DAMAGED
    changes, left = repaired(job)
    assert left == []
    assert {each.done for each in changes} >= {Done.ROWS_REMOVED}
    assert messages(job) == [(1, 1), (1, 2), (1, 3)]


def test_a_damaged_epoch_is_found_and_removed(job: Path) -> None:
    batch = Batch()
    batch.put(Family.META, EPOCH, b"?")
    change(job, batch)
    assert Kind.ROW_DAMAGED in found_in(job)
    assert repaired(job)[1] == []
    assert opened_epoch(job) == 0


def opened_epoch(job: Path) -> int:
    made = opened(job)
    epoch = made.epoch
    made.close()
    return epoch


def test_a_lost_identity_says_again_which_partition_it_is(job: Path) -> None:
    before = read_identity(job)
    (job / IDENTITY).unlink()
    assert repaired(job)[1] == []
    assert read_identity(job).partition == before.partition == (0, 2)
    assert messages(job) == [(1, number) for number in range(1, ROWS + 1)]


def test_a_store_that_is_repaired_keeps_its_messages(job: Path) -> None:
    (job / STORE / "CURRENT").write_text("MANIFEST-999999\n", "ascii")
    changes, left = repaired(job)
    assert left == []
    assert Done.STORE_REPAIRED in [each.done for each in changes]
    assert messages(job) == [(1, number) for number in range(1, ROWS + 1)]
    made = opened(job)
    assert made.receive([LinkBatch(1, 0, 7, 1, [])], 1.0)[0].verdict is Verdict.REPEATED
    made.close()


def test_a_store_that_is_lost_begins_again_as_one_of_a_partition(job: Path) -> None:
    shutil.rmtree(job / STORE)
    assert repaired(job)[1] == []
    assert messages(job) == []
