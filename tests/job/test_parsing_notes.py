"""Notes about pages that are being read, and what a restart makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings.parts import Settings
from crawler.frontier.entry import (
    CRASHES_MOST,
    Entry,
    decode_entry,
    fresh_slot,
    pending_key,
    queue_of,
    split_pending_key,
)
from crawler.frontier.host import Host
from crawler.frontier.lease import Lease
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.job import Job
from crawler.job.parsing_notes import PARSING, ParsingNotes, read_notes
from tests.jobs import store_of, verify

URLS = [f"http://h.test/{number}" for number in range(6)]


def lease_of(number: int, name: str = "h.test:80") -> Lease:
    return Lease(Host(name), fresh_slot(number), Entry(f"http://h.test/{number}", 0), 0.0)


def test_a_note_is_there_while_a_page_is_read_and_not_after(tmp_path: Path) -> None:
    notes = ParsingNotes(tmp_path)
    assert read_notes(tmp_path) == []
    with notes.reading(lease_of(1)), notes.reading(lease_of(2)):
        keys = {note.key for note in read_notes(tmp_path)}
        assert keys == {pending_key("h.test:80", fresh_slot(number)) for number in (1, 2)}
    assert read_notes(tmp_path) == []
    with pytest.raises(ValueError, match="bug"), notes.reading(lease_of(3)):
        raise ValueError("bug")
    assert read_notes(tmp_path) == []
    notes.close()
    assert not (tmp_path / PARSING).exists()


def test_a_run_goes_on_without_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    notes = ParsingNotes(tmp_path / "missing")
    with notes.reading(lease_of(1)):
        pass
    notes.close()


@pytest.mark.parametrize("damage", [lambda _: b"x" * 32_768, lambda content: content[:600], lambda _: b""])
def test_a_damaged_file_is_ignored(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    with DurableFrontier(tmp_path, delay=0) as frontier:
        frontier.add(URLS)
    notes = ParsingNotes(tmp_path)
    content = (tmp_path / PARSING).read_bytes()
    notes.close()
    (tmp_path / PARSING).write_bytes(damage(content))
    job = Job(tmp_path, Settings(), 0.0)
    job.close()
    assert job.notes == []
    assert not (tmp_path / PARSING).exists()


def test_a_note_that_was_being_written_is_of_no_url(tmp_path: Path) -> None:
    notes = ParsingNotes(tmp_path)
    with notes.reading(lease_of(1)):
        content = bytearray((tmp_path / PARSING).read_bytes())
    notes.close()
    (tmp_path / PARSING).write_bytes(content)
    (note,) = read_notes(tmp_path)
    assert note.is_of("http://h.test/1")
    assert not note.is_of("http://h.test/2")
    content[content.index(b"h.test")] ^= 1
    (tmp_path / PARSING).write_bytes(content)
    (note,) = read_notes(tmp_path)
    assert not note.is_of("http://h.test/1")


# -- what a restart makes of them ------------------------------------------------------------------------------


def entries(directory: Path) -> dict[str, tuple[bytes, Entry]]:
    with store_of(directory) as store:
        found = [(split_pending_key(key)[1], decode_entry(value)) for key, value in store.rows(Family.PENDING)]
    return {entry.href: (slot, entry) for slot, entry in found}


def leave(directory: Path, *numbers: int) -> None:
    """Leave notes on the URLs, as a process that dies does."""
    slots = {href: slot for href, (slot, _) in entries(directory).items()}
    notes = ParsingNotes(directory)
    leases = [Lease(Host(queue_of(URLS[0])), slots[URLS[n]], Entry(URLS[n], 0), 0.0) for n in numbers]
    held = [notes.reading(lease) for lease in leases]
    for each in held:
        each.__enter__()
    content = (directory / PARSING).read_bytes()
    notes.close()
    (directory / PARSING).write_bytes(content)


def taken(directory: Path) -> list[str]:
    """Take all URLs, one by one, and finish them."""
    order = []
    with DurableFrontier(directory, delay=0) as frontier:
        while (lease := frontier.take()) is not None:
            order.append(lease.url)
            frontier.finish(lease)
    return order


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with DurableFrontier(tmp_path / "job", delay=0) as frontier:
        frontier.add(URLS)
    return tmp_path / "job"


def test_noted_urls_go_behind_all_others_and_none_is_lost(directory: Path) -> None:
    leave(directory, 0, 2)
    order = taken(directory)
    assert order[:4] == [URLS[n] for n in (1, 3, 4, 5)]
    assert sorted(order[4:]) == [URLS[0], URLS[2]]
    assert verify(directory).code == 0


def test_the_crash_is_counted_and_kept(directory: Path) -> None:
    for crashes in range(1, 6):
        leave(directory, 3)
        Job(directory, Settings(), 0.0).close()
        slot, entry = entries(directory)[URLS[3]]
        assert entry.crashes == min(crashes, CRASHES_MOST)
        assert entry.priority == slot[1] == 7
        assert not (directory / PARSING).exists()
        assert verify(directory).code == 0
    assert sum(entry.crashes for _, entry in entries(directory).values()) == CRASHES_MOST


def test_a_note_on_a_page_that_was_finished_changes_nothing(directory: Path) -> None:
    leave(directory, 0)
    content = (directory / PARSING).read_bytes()
    (directory / PARSING).unlink()
    with DurableFrontier(directory, delay=0) as frontier:
        lease = frontier.take()
        assert lease is not None
        frontier.finish(lease)
    before = entries(directory)
    (directory / PARSING).write_bytes(content)
    Job(directory, Settings(), 0.0).close()
    assert entries(directory) == before
