"""What only a store on disk can show: reopening, looking from outside, the lock, and what dies with the process."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from crawler.base.kv import ON_DEMAND, Family
from crawler.job.store.readable_copy import open_copy
from crawler.job.store.rocks import RocksStore, StoreError, database_options, is_made
from crawler.job.store.wal import MARK
from tests.program import ROOT

# Each batch puts one number into three families; families that differ after a crash would mean a torn batch.
WRITER = """
import itertools, sys
from pathlib import Path
from crawler.base.kv import (Family)
from crawler.job.store.rocks import RocksStore

store = RocksStore(Path(sys.argv[1]))
for number in itertools.count():
    key = number.to_bytes(8, "big")
    batch = store.batch()
    batch.put(Family.PENDING, key, bytes(200))
    batch.put(Family.ADMITTED, key, key * 2)
    batch.put(Family.META, b"last", key)
    store.write(batch)
    if number % 100 == int(sys.argv[2]):
        store.sync()
    sys.stdout.buffer.write(key)
    sys.stdout.buffer.flush()
"""


def put(store: RocksStore, key: bytes, value: bytes = b"", family: Family = Family.META) -> None:
    batch = store.batch()
    batch.put(family, key, value)
    store.write(batch)


def killed_writer(path: Path, batches: int, sync_at: int = 100) -> int:
    """Kill a process that writes batches, after at least ``batches``; the last one that it saw written."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(sync_at)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        process.stdout.read(8 * batches)
    finally:
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        process.communicate()
    return batches + len(rest) // 8 - 1


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The store of one that was killed, to be copied, and the last batch that it saw written."""
    path = tmp_path_factory.mktemp("killed") / "store"
    return path, killed_writer(path, 300)


def last_of(path: Path) -> int:
    """The last batch that a reopened store holds; fails unless it holds all before it, in every family."""
    with closing(RocksStore(path)) as store:
        last = store.get(Family.META, b"last")
        count = 0 if last is None else int.from_bytes(last, "big") + 1
        wanted = [n.to_bytes(8, "big") for n in range(count)]
        assert [key for key, _ in store.scan(Family.PENDING, b"")] == wanted
        assert [key for key, _ in store.scan(Family.ADMITTED, b"")] == wanted
    return count - 1


def test_a_store_is_written_by_one(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store")
    with pytest.raises(StoreError, match="cannot open the store") as refused:
        RocksStore(tmp_path / "store")
    assert "\n" not in str(refused.value)
    store.close()
    RocksStore(tmp_path / "store").close()


def test_looking_beside_the_writer_sees_what_was_written_and_changes_nothing(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store")
    put(store, b"before")
    looking = RocksStore(tmp_path / "store", secondary=tmp_path / "look")
    assert looking.get(Family.META, b"before") == b""
    put(store, b"after")
    assert looking.get(Family.META, b"after") is None, "a look is of one moment"
    later = RocksStore(tmp_path / "store", secondary=tmp_path / "look again")
    assert later.get(Family.META, b"after") == b""
    with pytest.raises(StoreError):
        put(looking, b"mine")
    looking.close()
    later.close()
    store.close()


def test_looking_at_a_store_that_is_not_there_creates_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open the store"):
        RocksStore(tmp_path / "store", secondary=tmp_path / "look")
    assert not (tmp_path / "store" / "CURRENT").exists()


@pytest.mark.parametrize("batches", [1, 700, 3_000])
def test_sigkill_loses_no_batch_that_was_written(tmp_path: Path, batches: int) -> None:
    last = killed_writer(tmp_path / "store", batches)
    # The process may have died between writing a batch and saying so.
    assert last_of(tmp_path / "store") in (last, last + 1)


def record_offsets(log: Path) -> list[int]:
    data, at, found = log.read_bytes(), 0, []
    while at + 7 <= len(data):
        left = 32_768 - at % 32_768
        if left < 7:
            at += left
            continue
        found.append(at)
        at += 7 + int.from_bytes(data[at + 4 : at + 6], "little")
    return found


@pytest.mark.parametrize("kind", [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 129, 255])
def test_a_log_with_a_record_of_another_type_gives_a_prefix_or_is_refused(
    tmp_path: Path, killed: tuple[Path, int], kind: int
) -> None:
    made, last = killed
    shutil.copytree(made, tmp_path / "killed")
    (log,) = (tmp_path / "killed").glob("*.log")
    offsets = record_offsets(log)
    assert len(offsets) > last, "a batch is a record, or several at the end of a block"
    at = offsets[len(offsets) // 2]
    data = bytearray(log.read_bytes())
    data[at + 6] = kind
    log.write_bytes(data)
    if kind in (5, 6, 7, 8, 11):
        for _ in range(2):
            with pytest.raises(StoreError, match=rf"{log.name} is damaged at offset {at}, .*crawler repair"):
                RocksStore(tmp_path / "killed")
        os.truncate(log, at)
    assert 0 < last_of(tmp_path / "killed") <= last + 1


def manifest(path: Path) -> Path:
    return max(path.glob("MANIFEST-*"))


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped_type(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[6] ^= 4  # a whole record becomes one of a recycled log
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no CURRENT": lambda path: (path / "CURRENT").unlink(),
    "another CURRENT": lambda path: (path / "CURRENT").write_bytes(b"garbage\n"),
    "no MANIFEST": lambda path: manifest(path).unlink(),
    "half a MANIFEST": lambda path: halved(manifest(path)),
    "a flipped bit": lambda path: flipped_type(manifest(path)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_store_that_names_its_files_no_more_is_left_alone_and_a_copy_is_read(
    tmp_path: Path, killed: tuple[Path, int], damage: str
) -> None:
    shutil.copytree(killed[0], tmp_path / "store")
    for _ in range(2):
        RocksStore(tmp_path / "store").close()  # the log goes into tables
    DAMAGES[damage](tmp_path / "store")
    before = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir() if path.name != "LOG"}
    for _ in range(2):  # a refusal must not make something that the next start takes for an empty store
        with pytest.raises(StoreError, match="cannot open the store"):
            RocksStore(tmp_path / "store")
    copy = open_copy(tmp_path / "store", tmp_path / "scratch")
    copy.store.close()
    assert copy.whole is ("CURRENT" in damage)
    after = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    assert {name: data for name, data in after.items() if name in before} == before


def test_a_table_with_a_damaged_block_is_left_out(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store")
    for family in (Family.META, Family.PENDING):
        for number in range(4_000):
            put(store, number.to_bytes(8, "big"), os.urandom(100), family)
    store.close()
    for _ in range(2):
        RocksStore(tmp_path / "store").close()
    table = min((tmp_path / "store").glob("*.sst"))
    data = bytearray(table.read_bytes())
    data[100_000] ^= 1
    table.write_bytes(data)
    copy = open_copy(tmp_path / "store", tmp_path / "scratch")
    found = {family: len(copy.store.scan(family, b"")) for family in (Family.META, Family.PENDING)}
    copy.store.close()
    assert not copy.whole
    assert copy.error is not None
    assert "cannot be read" in copy.error
    assert sorted(found.values()) == [0, 4_000]


def test_indices_and_filters_are_read_in_parts(tmp_path: Path) -> None:
    # A whole index of a table of 64 MB is as large as a shard of the cache: it would be read again for each host.
    RocksStore(tmp_path / "store").close()
    text = max((tmp_path / "store").glob("OPTIONS-*")).read_text()
    for family in set(Family) - ON_DEMAND:
        _, _, options = text.partition(f'[TableOptions/BlockBasedTable "{family.value}"]')
        options, _, _ = options.partition("[")
        assert "index_type=kTwoLevelIndexSearch" in options, family
        assert "partition_filters=true" in options, family


def test_a_snapshot_is_the_store_between_two_batches(tmp_path: Path) -> None:
    """While it is written; without what comes after it."""
    store = RocksStore(tmp_path / "store")
    made = threading.Thread(target=store.snapshot, args=(str(tmp_path / "copy"),))
    written = 0
    while made.is_alive() or not made.ident:
        batch = store.batch()
        for family in (Family.META, Family.DONE):
            batch.put(family, written.to_bytes(4, "big"), bytes(1_000))
        store.write(batch)
        written += 1
        if written == 2_000:
            made.start()
    made.join()
    store.close()
    copy = RocksStore(tmp_path / "copy")
    rows = [[key for key, _ in copy.scan(family, b"") if key != MARK] for family in (Family.META, Family.DONE)]
    copy.close()
    assert rows[0] == rows[1] == [number.to_bytes(4, "big") for number in range(len(rows[0]))]
    assert 2_000 <= len(rows[0]) <= written


def test_a_store_whose_making_was_interrupted_is_empty_and_no_damage(tmp_path: Path) -> None:
    """Programs that made the store in its place left one without its families, if they were killed then."""
    path = tmp_path / "store"
    Rdict(str(path), database_options(), column_families={Family.META.value: Options(raw_mode=True)}).close()
    for number, as_run in enumerate((False, True)):
        with closing(RocksStore(path, secondary=tmp_path / f"scratch-{number}", as_run=as_run)) as store:
            assert store.scan(Family.PENDING, b"") == []
    with closing(RocksStore(path)) as store:
        batch = store.batch()
        batch.put(Family.PENDING, b"key", b"value")
        store.write(batch)
        assert store.get(Family.PENDING, b"key") == b"value"


def test_a_manifest_without_families_beside_data_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made = Rdict(str(path), database_options(), column_families={Family.META.value: Options(raw_mode=True)})
    made.get_column_family(Family.META.value)[b"key"] = b"value"
    made.close()
    for settings in ({}, {"secondary": tmp_path / "scratch"}):
        with pytest.raises(StoreError):
            RocksStore(path, **settings)


def test_a_new_store_appears_whole(tmp_path: Path) -> None:
    """What a reader meets beside a process that makes a store: nothing, and then all of it."""
    path = tmp_path / "store"
    making = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import pathlib\nfrom crawler.job.store.rocks import RocksStore\nRocksStore(pathlib.Path({str(path)!r}))",
        ],
        cwd=ROOT,
    )
    for number in itertools.count():
        done = making.poll() is not None
        if is_made(path):
            with closing(RocksStore(path, secondary=tmp_path / f"scratch-{number}", as_run=bool(number % 2))) as store:
                assert store.scan(Family.PENDING, b"") == []
        if done:
            break
    assert making.returncode == 0
    assert sorted(Rdict.list_cf(str(path))) == sorted(
        ["default", *(family.value for family in Family if family not in ON_DEMAND)]
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed blocks")
def test_large_blocks_return_to_the_system(tmp_path: Path) -> None:
    """Once freed, even with small ones between them that live on. By itself, glibc would return the first ones only."""
    program = """
import sys
from pathlib import Path
from crawler.base.memory import resident_memory
from crawler.job.store.rocks import RocksStore

def fill():
    blocks = [(bytearray(b"x") * 2**20, bytearray(20_000)) for _ in range(40)]
    return [small for _, small in blocks]

store = RocksStore(Path(sys.argv[1]))
first = fill()
before = resident_memory()
second = fill()
print(resident_memory() - before)
"""
    grown = subprocess.check_output([sys.executable, "-c", program, str(tmp_path / "store")], cwd=ROOT)
    assert int(grown) < 4 * 2**20
