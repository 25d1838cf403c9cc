"""RocksDB's part of the contract, on RocksDB: what was synced survives, of the rest a prefix of whole batches."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.kv import Family, Store
from crawler.job.store.rocks import RocksStore

BATCHES = 60
SYNCED = 35


def write(store: Store, number: int) -> None:
    batch = store.batch()
    batch.put(Family.PENDING, b"host\0%04d" % number, b"entry" * 20)
    batch.put(Family.ADMITTED, b"%04d" % number, bytes(160))
    batch.put(Family.META, b"counters", b"%04d" % number)
    store.write(batch)


def log_size(directory: Path) -> int:
    (log,) = directory.glob("*.log")
    return log.stat().st_size


@pytest.mark.parametrize("seed", range(12))
def test_a_log_cut_anywhere_behind_the_last_sync(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = RocksStore(tmp_path / "store")
    for number in range(SYNCED):
        write(store, number)
    store.sync()
    durable = log_size(tmp_path / "store")
    for number in range(SYNCED, BATCHES):
        write(store, number)
    # As a dead machine's disk would be found: a copy of the files, the log's unsynced bytes gone in part.
    shutil.copytree(tmp_path / "store", tmp_path / "found")
    store.close()
    (log,) = (tmp_path / "found").glob("*.log")
    size = log.stat().st_size
    assert size > durable
    kept = chance.randint(durable, size)
    with open(log, "r+b") as stream:
        stream.truncate(kept)
        if chance.random() < 0.5:
            # A file system may have made the file longer before it wrote the bytes.
            stream.truncate(size)
    with closing(RocksStore(tmp_path / "found")) as found:
        pending = [key for key, _ in found.scan(Family.PENDING, b"")]
        admitted = [key for key, _ in found.scan(Family.ADMITTED, b"")]
        last = found.get(Family.META, b"counters")
    assert SYNCED <= len(pending) <= BATCHES
    assert pending == [b"host\0%04d" % number for number in range(len(pending))]
    assert admitted == [b"%04d" % number for number in range(len(pending))], "the families are of one moment"
    assert last == b"%04d" % (len(pending) - 1)
