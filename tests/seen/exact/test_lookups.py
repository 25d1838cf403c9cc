"""What an exact seen-set asks of a store beyond single keys, the same in memory and on RocksDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.kv import Family, Store
from crawler.job.store.rocks import RocksStore
from tests.memory_store import MemoryStore

# Rows that share their first eight bytes or nearly do, and the last possible ones.


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "store")
    yield made
    made.close()


def put(store: Store, family: Family, keys: list[bytes]) -> None:
    batch = store.batch()
    for key in keys:
        batch.put(family, key, b"")
    store.write(batch)


def test_lookups_agree_with_a_set_when_rows_lie_in_several_tables(tmp_path: Path) -> None:
    chance = random.Random(5)
    hosts = [chance.randbytes(8) for _ in range(200)]
    held = [chance.choice(hosts) + chance.randbytes(16) for _ in range(6_000)]
    for start in range(0, len(held), 2_000):
        # Closing and opening turns the log into a table.
        store = RocksStore(tmp_path / "store")
        put(store, Family.SEEN, held[start : start + 2_000])
        store.close()
    store = RocksStore(tmp_path / "store")
    assert len(list((tmp_path / "store").glob("*.sst"))) > 1
    assert store.get_many(Family.SEEN, held) == [b""] * len(held)
    assert (
        store.get_many(Family.SEEN, [chance.choice(hosts) + chance.randbytes(16) for _ in range(2_000)])
        == [None] * 2_000
    )
    assert [row for row, _ in store.scan(Family.SEEN, held[0])] == sorted(row for row in held if row >= held[0])
    store.close()
