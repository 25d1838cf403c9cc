"""A store whose disk is full can still be read, and carries on when there is room: in memory as on RocksDB."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.base.kv import Family, Store
from crawler.job.store.rocks import RocksStore, StoreError
from tests.faulty_store import FaultyStore
from tests.small_disk import small_disk

VALUE = os.urandom(1_000)
MOST = 10_000  # rows: more than a small disk holds


@dataclass(frozen=True)
class Filled:
    """A store, and what fills and frees its disk."""

    store: Store
    fill: Callable[[], None]
    free: Callable[[], None]


@pytest.fixture(params=["memory", "bytes", "inodes"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filled]:
    if request.param == "memory":
        faulty = FaultyStore()

        def set_full(full: bool) -> None:
            faulty.full = full

        yield Filled(faulty, lambda: set_full(True), lambda: set_full(False))
        return
    with small_disk(tmp_path / "disk", 8, 200) as disk:
        store = RocksStore(disk.path / "store")

        def fill() -> None:
            if request.param == "inodes":
                disk.take_inodes()
            disk.fill()
            if request.param == "inodes":
                disk.leave(2**18)  # for writes to the log that is there, and a moment later no more

        yield Filled(store, fill, disk.free)
        store.close()


def put(store: Store, number: int) -> None:
    batch = store.batch()
    batch.put(Family.HOSTS, b"%08d" % number, VALUE)
    store.write(batch)


def put_until_full(store: Store, first: int) -> list[int]:
    """The numbers that could be written."""
    for number in range(first, MOST):
        try:
            put(store, number)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return list(range(first, number))
    raise AssertionError("the disk was never full: the test proves nothing")


def rows(store: Store) -> list[int]:
    return [int(key) for key, value in store.rows(Family.HOSTS) if value == VALUE]


def read_beside(store: Store) -> list[int]:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(rows(store)))
    thread.start()
    thread.join()
    return found


def test_a_full_disk_takes_nothing_and_loses_nothing(filled: Filled) -> None:
    store, written = filled.store, list(range(100))
    for number in written:
        put(store, number)
    filled.fill()
    written += put_until_full(store, 100)
    for _ in range(3):
        assert rows(store) == written
        assert store.get(Family.HOSTS, b"%08d" % 7) == VALUE
        assert read_beside(store) == written
        store.sync()
        with pytest.raises(OSError, match="No space left") as refused:
            put(store, MOST)
        assert refused.value.errno == errno.ENOSPC, "each write says so, not only the first"
        with pytest.raises(OSError, match="No space left") as refused:
            store.reopen()
    filled.free()
    store.reopen()
    put(store, MOST)
    store.sync()
    assert rows(store) == read_beside(store) == [*written, MOST]


def test_it_is_closed_where_a_sync_was_the_last_to_find_the_disk_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        store = RocksStore(disk.path / "store")
        disk.fill()
        written = put_until_full(store, 0)
        store.sync()  # RocksDB's own sync fails, and from then on it says only that something failed before
        store.close()
        disk.free()
        store = RocksStore(disk.path / "store")
        assert rows(store) == written
        store.close()


def test_it_is_read_also_where_opening_it_again_fails_half_way(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        store = RocksStore(disk.path / "store")
        put(store, 1)
        disk.fill()
        written = [1, *put_until_full(store, 2)]
        disk.free()
        lock = disk.path / "store" / "LOCK"
        lock.unlink()
        lock.mkdir()  # the database can then be read and not be written
        for _ in range(2):
            with pytest.raises(StoreError):
                store.reopen()
            assert rows(store) == read_beside(store) == written
            store.sync()
            with pytest.raises(StoreError, match="No space left"):
                put(store, MOST)
        lock.rmdir()
        store.reopen()
        put(store, MOST)
        assert rows(store) == [*written, MOST]
        store.close()


@pytest.mark.parametrize("freed", [False, True])
def test_it_closes_after_a_write_failed_and_what_was_before_it_was_synced(tmp_path: Path, freed: bool) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        store = RocksStore(disk.path / "store")
        put(store, 1)
        disk.fill()
        written = [1, *put_until_full(store, 2)]
        store.sync()
        if freed:
            disk.free()
        store.close()
        disk.free()
        again = RocksStore(disk.path / "store")
        assert rows(again) == written
        again.close()


def test_a_reader_beside_is_waited_for(tmp_path: Path) -> None:
    """A database is not closed, and so not opened again, before its last cursor is."""
    with small_disk(tmp_path / "disk", 8) as disk:
        store = RocksStore(disk.path / "store")
        put(store, 0)
        over = threading.Event()
        failures: list[Exception] = []

        def read() -> None:
            while not over.is_set():
                try:
                    assert rows(store)[:1] == [0]
                except Exception as error:  # a thread has nobody to raise to  # noqa: BLE001
                    failures.append(error)
                    return

        readers = [threading.Thread(target=read) for _ in range(4)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # the reader is interrupted everywhere, also between its last row and its end
        try:
            for reader in readers:
                reader.start()
            for _ in range(3):
                disk.fill()
                put_until_full(store, 1)
                disk.free()
                store.reopen()
        finally:
            sys.setswitchinterval(interval)
            over.set()
            for reader in readers:
                reader.join()
        assert not failures
        store.close()
