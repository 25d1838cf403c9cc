"""What is taken up after a loss: output shorter or longer than the journal, generations gone, the journal cut."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings.load import settings_from
from crawler.inspect.job_reader import open_job as open_to_look
from crawler.job.identity import read_identity
from crawler.job.job import Job
from crawler.job.records import decode_counters, decode_done
from crawler.job.store.rocks import StoreError
from crawler.job.store.wal import Record, read_log
from tests.jobs import PAGES, Stopped, killed_job, manifests, repair, stopped_job, store_of

NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed before its first generation: nothing of its output is known to be durable."""
    with killed_job(tmp_path_factory.mktemp("killed"), checkpoint_interval=3_600) as made:
        yield made


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed after generations were written."""
    with killed_job(tmp_path_factory.mktemp("checkpointed"), checkpoint_interval=0.01) as made:
        yield made


@pytest.fixture(scope="module")
def never_synced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """Killed before its first sync: nothing is known to be durable."""
    with killed_job(tmp_path_factory.mktemp("never-synced"), checkpoint_interval=3_600, sync_interval=3_600) as made:
        yield made


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("stopped"), 10, 20, 30) as made:
        yield made


def boundary(data: bytes) -> int:
    return data.index(b"\n", len(data) // 2) + 1


SHORTER: dict[str, Callable[[bytes], bytes]] = {
    "at the end of a record": lambda data: data[: boundary(data)],
    "within a record": lambda data: data[: boundary(data) - 40],
    "before the last line feed": lambda data: data[:-1],
    "nothing left": lambda data: b"",
    "a hole of zeros": lambda data: data[: boundary(data)] + bytes(300) + data[boundary(data) + 300 :],
    "a tail of zeros": lambda data: data[: boundary(data)] + bytes(len(data) - boundary(data)),
}


@pytest.mark.parametrize("loss", SHORTER)
def test_urls_whose_records_were_lost_are_fetched_again(tmp_path: Path, killed: Stopped, loss: str) -> None:
    job = killed.copy(tmp_path / "job")
    pages = job / "pages.jsonl"
    whole = pages.read_bytes()
    pages.write_bytes(SHORTER[loss](whole))
    left = pages.read_bytes()
    same = next((at for at, byte in enumerate(left) if byte != whole[at]), len(left))
    kept = whole[: whole.rfind(b"\n", 0, same) + 1]
    before = time.monotonic()
    killed.carries_on_to_the_end(job)
    assert pages.read_bytes().startswith(kept)
    assert killed.asked_since(before) == PAGES - kept.count(b"\n"), "what stands there is not asked again"


def test_a_journal_that_lost_its_end_is_believed_before_the_generations(tmp_path: Path, checkpointed: Stopped) -> None:
    job = checkpointed.copy(tmp_path / "job")
    newest, *older = manifests(job)
    for manifest in older:  # how early one was written is a matter of chance
        (job / "seen" / f"generation-{manifest.generation:06}").unlink()
    (log,) = (job / "store").glob("*.log")
    whole = log.read_bytes()
    cuts = [record.offset for record in read_log(log) if isinstance(record, Record)]

    def ends_before(cut: int) -> bool:
        log.write_bytes(whole[:cut])
        with open_to_look(job) as looking:
            return looking.counters.sequence < newest.sequence

    # The longest log that ends before the generation.
    ends_before(cuts[bisect_left(cuts, True, key=lambda cut: not ends_before(cut)) - 1])
    opened = open_job(job)
    assert opened.checkpointer.manifest is None
    assert len(opened.seen) == opened.counters.urls_admitted, "no bit of a URL that is not queued"
    opened.close()
    checkpointed.carries_on_to_the_end(job)


def blank(log: Path, part: float) -> None:
    """Make of a few bytes what a block that never reached the disk reads as."""
    data = bytearray(log.read_bytes())
    at = int(len(data) * part)
    data[at : at + 300] = bytes(300)
    log.write_bytes(data)


@pytest.mark.parametrize("part", [0.3, 0.6])
def test_a_journal_that_was_damaged_before_what_was_durable_is_left_to_repair(
    tmp_path: Path, checkpointed: Stopped, part: float
) -> None:
    job = checkpointed.copy(tmp_path / "job")
    (log,) = (job / "store").glob("*.log")
    blank(log, part)
    with pytest.raises(StoreError, match=rf"{log.name}: offset \d+: .*crawler repair"):
        open_job(job)
    assert repair(job).code == 0
    checkpointed.carries_on_to_the_end(job)


def test_a_journal_that_was_damaged_behind_the_last_sync_is_read_up_to_there(
    tmp_path: Path, never_synced: Stopped
) -> None:
    job = never_synced.copy(tmp_path / "job")
    (log,) = (job / "store").glob("*.log")
    blank(log, 0.9)
    opened = open_job(job)
    assert [note for note in opened.notes if note.startswith(f"store/{log.name}: Corruption: ")], opened.notes
    opened.close()
    never_synced.carries_on_to_the_end(job)


def test_the_end_of_the_output_is_known_when_no_finished_url_is_left_in_the_journal(
    tmp_path: Path, stopped: Stopped
) -> None:
    job = stopped.copy(tmp_path / "job")
    with store_of(job) as store:
        first = decode_done(store.scan(Family.DONE, b"", None, 1)[0][1]).positions[0]
    start = first.end - first.length
    assert start > 0, "older events were trimmed"
    os.truncate(job / "pages.jsonl", start)
    for path in (job / "seen").iterdir():
        path.unlink()
    # Killed right after it was taken up, twice.
    for _ in range(2):
        opened = open_job(job)
        assert opened.files.outputs.pages.end == start
        assert opened.store.scan(Family.DONE, b"") == []
        opened.close()
    stopped.carries_on_to_the_end(job)


def test_counts_follow_urls_that_are_pending_again(tmp_path: Path, killed: Stopped) -> None:
    job = killed.copy(tmp_path / "job")
    with store_of(job) as store:
        before = decode_counters(store.scan(Family.META, b"counters")[0][1])
    (job / "pages.jsonl").write_bytes(b"")
    opened = open_job(job)
    assert before.pages_fetched > 0
    assert (opened.counters.pages_fetched, opened.counters.done, opened.counters.status) == (0, 0, {})
    assert opened.counters.pending == opened.counters.urls_admitted == before.urls_admitted == opened.frontier.queued
    assert (opened.counters.seeds_fetched, any(opened.counters.urls)) == (0, False)
    # A page that was being read at the moment of the kill has a note of its own.
    assert f"finished URLs whose records were lost are pending again: {before.done}" in opened.notes
    opened.close()


def open_job(job: Path) -> Job:
    return Job(job, settings_from(read_identity(job).shaping), NOW)
