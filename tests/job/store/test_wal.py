"""RocksDB's logs as they are read beside RocksDB: every damage is found, and what stands behind it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Family
from crawler.job.store.readable_copy import open_copy
from crawler.job.store.rocks import Broken, RocksStore, StoreError
from crawler.job.store.wal import (
    BLOCK,
    Record,
    append_record,
    dropped_records,
    log_fault,
    logs_of,
    next_record,
    read_log,
    rewrite_log,
)

BATCHES = 120
SYNCED = 100  # batches that were there at the last sync


def write(store: RocksStore, number: int) -> None:
    batch = store.batch()
    for each in range(1 + number % 7):
        batch.put(Family.PENDING, b"host\0%04d-%d" % (number, each), b"entry" * (number % 300))
    batch.put(Family.ADMITTED, b"%04d" % number, bytes(16))
    if number % 10 == 9:
        batch.delete_range(Family.DONE, b"", b"\xff")
    store.write(batch)


def batches_in(store: RocksStore) -> list[int]:
    return [int(key) for key, _ in store.scan(Family.ADMITTED, b"")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As a killed process leaves it: everything in one log, synced but for the last batches."""
    directory = tmp_path_factory.mktemp("wal")
    open_store = RocksStore(directory / "open")
    for number in range(BATCHES):
        write(open_store, number)
        if number in (20, SYNCED - 1):
            open_store.sync()
    shutil.copytree(directory / "open", directory / "killed")
    open_store.close()
    return directory / "killed"


def the_log(store: Path) -> Path:
    (log,) = (log for log in logs_of(store) if log.stat().st_size)
    return log


def records(log: Path) -> list[Record]:
    return [found for found in read_log(log) if isinstance(found, Record)]


def test_a_whole_log_has_no_damage_and_no_gap(store: Path) -> None:
    found = list(read_log(the_log(store)))
    assert len(records(the_log(store))) == len(found) == BATCHES + 2, "each batch, and each sync's mark"
    assert all(isinstance(one, Record) for one in found)
    assert log_fault(store) is None
    expected = 1
    for record in records(the_log(store)):
        assert record.sequence == expected
        expected = record.behind


def test_each_sync_says_how_far_the_log_was_durable(store: Path) -> None:
    found = records(the_log(store))
    marks = [at for at, record in enumerate(found) if record.vouches is not None]
    assert marks == [21, SYNCED + 1]
    assert [found[at].vouches for at in marks] == [found[at].sequence - 1 for at in marks]


@pytest.mark.parametrize("seed", range(24))
def test_a_flipped_bit_anywhere_costs_one_batch(store: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    damaged = tmp_path / "store"
    shutil.copytree(store, damaged)
    log = the_log(damaged)
    whole = records(log)
    data = bytearray(log.read_bytes())
    at = chance.randrange(len(data)) if seed % 2 else whole[seed * 3].offset + seed % 14 // 2
    data[at] ^= 1 << chance.randrange(8)
    log.write_bytes(data)
    left = [record.payload for record in records(log)]
    assert len(left) == len(whole) - 1
    place = next(number for number, record in enumerate(whole) if record.payload not in left)
    fault = log_fault(damaged)
    if place == len(whole) - 1:
        assert fault is None or fault.behind == 0
        return
    assert fault is not None
    following = whole[place + 1].offset
    assert whole[place].offset <= fault.offset < following
    assert fault.behind == len(whole) - place - 1
    # The mark that vouches for a batch is the one of the sync behind it.
    assert fault.durable == (place <= SYNCED)
    if fault.durable and place not in (21, SYNCED + 1):
        with pytest.raises(StoreError, match=rf"{log.name}: offset {fault.offset}: .* `crawler repair` recovers them"):
            RocksStore(damaged)
        assert log.read_bytes() == data, "nothing was changed"
    copy = open_copy(damaged, tmp_path / "scratch")
    try:
        assert copy.whole is not fault.durable
        left = batches_in(copy.store)
    finally:
        copy.store.close()
    assert len(left) >= BATCHES - 1 if fault.durable else left == list(range(len(left)))
    assert log.read_bytes() == data or not fault.durable


def test_what_a_loss_of_power_leaves_of_unsynced_batches_is_read_up_to_there(store: Path, tmp_path: Path) -> None:
    """A page of the log did not reach the disk and those behind it did: no mark vouches for what is missing."""
    damaged = tmp_path / "store"
    shutil.copytree(store, damaged)
    log = the_log(damaged)
    offset = records(log)[SYNCED + 6].offset
    data = bytearray(log.read_bytes())
    data[offset : offset + 2_000] = bytes(2_000)
    log.write_bytes(data)
    fault = log_fault(damaged)
    assert fault is not None
    assert (fault.offset, fault.durable) == (offset, False)
    assert fault.behind > 0
    with pytest.raises(StoreError):
        RocksStore(damaged, broken=Broken.REFUSE)
    with closing(RocksStore(damaged)) as found:
        assert batches_in(found) == list(range(SYNCED + 4))
    assert dropped_records(damaged)


@pytest.mark.parametrize("zeros", [False, True])
def test_an_end_that_is_cut_is_no_damage(store: Path, tmp_path: Path, zeros: bool) -> None:
    whole = the_log(store).read_bytes()
    last = records(the_log(store))[-1].offset
    for size in (last, last + 3, last + 7, last + 40, len(whole) - 1):
        (tmp_path / "000007.log").write_bytes(whole[:size] + bytes(50_000 * zeros))
        found = log_fault(tmp_path)
        assert found is None or (zeros and found.behind == 0)


def test_a_lost_stretch_between_whole_records_is_found(store: Path, tmp_path: Path) -> None:
    """Where it begins and ends with a record nothing but the numbers tells."""
    found = records(the_log(store))
    with open(tmp_path / "000007.log", "wb") as stream:
        for record in (*found[:30], *found[33:]):
            append_record(stream, record.payload)
    fault = log_fault(tmp_path)
    assert fault is not None
    assert (fault.behind, fault.durable) == (len(found) - 33, True)


@given(
    st.lists(st.integers(12, 3 * BLOCK).map(lambda size: random.Random(size).randbytes(size)), max_size=6),
    st.booleans(),
)
def test_a_log_is_written_as_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], more: bool
) -> None:
    directory = tmp_path_factory.mktemp("log")
    with open(directory / "1.log", "wb") as stream:
        for payload in payloads:
            append_record(stream, payload)
        stream.write(bytes(100) if more else b"")
    assert [record.payload for record in records(directory / "1.log")] == payloads
    rewrite_log(directory / "1.log", directory / "2.log")
    assert [record.payload for record in records(directory / "2.log")] == payloads


@given(st.binary(max_size=300), st.integers(0, 2 * BLOCK))
def test_garbage_is_damage_and_no_record(tmp_path_factory: pytest.TempPathFactory, garbage: bytes, size: int) -> None:
    path = tmp_path_factory.mktemp("garbage") / "1.log"
    path.write_bytes((garbage * (size // max(1, len(garbage)) + 1))[:size])
    assert not any(isinstance(found, Record) for found in read_log(path))


def test_a_record_is_found_at_whatever_byte_it_begins(tmp_path: Path) -> None:
    with open(tmp_path / "1.log", "wb") as stream:
        append_record(stream, random.Random(1).randbytes(500))
    record = (tmp_path / "1.log").read_bytes()
    for before in (1, 6, 7, 100, BLOCK - len(record)):
        block = random.Random(before).randbytes(before) + record
        assert next_record(block, 0) == before
    assert next_record(record[:-1], 0) == len(record) - 1
