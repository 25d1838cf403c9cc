"""The behaviour of a store, the same in memory and on RocksDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.kv import PAGE, Family, Reader, Store
from crawler.job.store.rocks import RocksStore
from tests.examples import TIMES
from tests.memory_store import MemoryStore

Contents = dict[Family, dict[bytes, bytes]]
# Few and short keys, so that changes meet; NUL and 0xFF, so that order is that of bytes.
keys = st.binary(max_size=3) | st.sampled_from([b"", b"\0", b"a", b"a\0", b"a\xff", b"b", b"\xff", b"\xff\xff"])
families = st.sampled_from([Family.PENDING, Family.HOSTS, Family.META])
puts = st.tuples(st.just("put"), families, keys, st.binary(max_size=8))
deletes = st.tuples(st.just("delete"), families, keys, st.just(b""))
ranges = st.tuples(st.just("range"), families, keys, keys).map(lambda c: (c[0], c[1], *sorted(c[2:])))
batches = st.lists(st.lists(puts | deletes | ranges, max_size=12), max_size=4)


class _WithAllFamilies(RocksStore):
    unused = frozenset()


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else _WithAllFamilies(tmp_path / "store")
    yield made
    made.close()


def put(store: Store, family: Family, *pairs: tuple[bytes, bytes]) -> None:
    batch = store.batch()
    for key, value in pairs:
        batch.put(family, key, value)
    store.write(batch)


def contents(store: Reader) -> Contents:
    return {family: dict(store.scan(family, b"")) for family in Family}


def test_a_family_is_read_to_its_end_a_page_at_a_time(store: Store) -> None:
    everything = [(n.to_bytes(2, "big"), b"%d" % n) for n in range(2 * PAGE + 1)]
    put(store, Family.DONE, *everything)
    put(store, Family.HOSTS, (b"h", b"1"))
    assert list(store.rows(Family.DONE)) == everything
    assert [len(rows) for rows in store.pages(Family.DONE)] == [PAGE, PAGE, 1]
    assert list(store.rows(Family.DONE, everything[1][0], everything[PAGE + 3][0])) == everything[1 : PAGE + 3]
    assert list(store.rows(Family.ROBOTS)) == [] == list(store.pages(Family.ROBOTS))


def test_rows_may_be_deleted_while_they_are_read(store: Store) -> None:
    put(store, Family.DONE, *((bytes([n]), b"") for n in range(9)))
    met = []
    for rows in store.pages(Family.DONE, size=2):
        met += [key[0] for key, _ in rows]
        batch = store.batch()
        batch.delete(Family.DONE, bytes([met[-1]]))
        batch.delete(Family.DONE, bytes([met[-1] + 1]))  # of the next page
        store.write(batch)
    assert met == [0, 1, 3, 4, 6, 7]
    assert [key[0] for key, _ in store.rows(Family.DONE)] == [0, 3, 6]


def test_a_batch_can_be_written_to_a_store_that_was_opened_anew(store: Store) -> None:
    batch = store.batch()
    batch.put(Family.HOSTS, b"h", b"1")
    store.reopen()
    store.write(batch)
    store.write(batch)
    assert contents(store)[Family.HOSTS] == {b"h": b"1"}


def apply(model: Contents, batch: list[tuple[str, Family, bytes, bytes]]) -> None:
    for kind, family, key, other in batch:
        table = model[family]
        if kind == "put":
            table[key] = other
        elif kind == "delete":
            table.pop(key, None)
        else:
            for gone in [k for k in table if key <= k < other]:
                del table[gone]


@settings(max_examples=19 * TIMES)
@given(batches=batches, start=keys, end=st.none() | keys, limit=st.none() | st.integers(0, 5))
def test_a_store_is_an_ordered_map(
    store: Store,
    batches: list[list[tuple[str, Family, bytes, bytes]]],
    start: bytes,
    end: bytes | None,
    limit: int | None,
) -> None:
    empty = store.batch()
    for family in Family:
        empty.delete_range(family, b"", b"\xff" * 9)
    store.write(empty)
    model: Contents = {family: {} for family in Family}
    for changes in batches:
        apply(model, changes)
        batch = store.batch()
        for kind, family, key, other in changes:
            match kind:
                case "put":
                    batch.put(family, key, other)
                case "delete":
                    batch.delete(family, key)
                case _:
                    batch.delete_range(family, key, other)
        store.write(batch)
    assert contents(store) == model
    for family, table in model.items():
        wanted = sorted((k, v) for k, v in table.items() if k >= start and (end is None or k < end))
        assert store.scan(family, start, end, limit) == wanted[:limit]
        assert list(store.rows(family, start, end)) == wanted
        assert list(store.pages(family, start, end, 2)) == [wanted[at : at + 2] for at in range(0, len(wanted), 2)]
        assert store.get(family, start) == table.get(start)
