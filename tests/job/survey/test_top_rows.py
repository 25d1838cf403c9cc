"""Sums of the most frequent keys: exact as long as there is room, and then too low by no more than is said."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.survey import TopRows

ADDED = st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.integers(0, 1_000), st.sampled_from([1, 20])))


@given(ADDED, st.integers(1, 12))
def test_what_a_row_lacks_weighs_no_more_than_is_said(added: list[tuple[str, int, int]], places: int) -> None:
    rows = TopRows(places, 2)
    records: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for key, size, weight in added:
        rows.add(key, (1, size), weight)
        records[key] += 1
        sizes[key] += size
        weights[key] += weight
    assert len(rows) <= places
    assert rows.missed * places <= 2 * weights.total()
    for key in records:
        row = rows.get(key)
        if row is None:
            assert weights[key] <= rows.missed
        else:
            assert records[key] - rows.missed <= row[0] <= records[key]
            assert row[1] <= sizes[key]
    if len(records) <= places:
        assert rows.missed == 0
        assert {key: tuple(row) for key, row in rows.items()} == {key: (records[key], sizes[key]) for key in records}
        most = [row[0] for _, row in rows.most(99)]
        assert most == sorted(records.values(), reverse=True)


@given(ADDED, ADDED, st.integers(1, 12))
def test_a_stored_one_goes_on_as_if_it_had_not_been_stored(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]], places: int
) -> None:
    straight, first = TopRows(places, 2), TopRows(places, 2)
    for key, size, weight in before:
        straight.add(key, (1, size), weight)
        first.add(key, (1, size), weight)
    second = TopRows(places, 2)
    second.restore(first.dump())
    for key, size, weight in after:
        straight.add(key, (1, size), weight)
        second.add(key, (1, size), weight)
    assert second.dump() == straight.dump()


def test_a_frequent_key_is_found_among_very_many_others() -> None:
    rows, rng = TopRows(100), random.Random(5)
    added = Counter[str]()
    for number in range(300_000):
        key = f"h{number}" if rng.random() < 0.9 else "frequent"
        rows.add(key)
        added[key] += 1
    (first, (count,)), *_ = rows.most(1)
    assert first == "frequent"
    assert added["frequent"] - rows.missed <= count <= added["frequent"]
    assert len(rows) <= 100


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"": "-1"},
        {"": "0", "a": "1 2"},
        {"": "0", "a": "1 2 3 4"},
        {"": "0", "a": "1 2 x"},
        {"": "9", "a": "1 2 3"},
        {"": "0", "a": "1 2 \u0663"},
        {"": "0"} | {f"h{n}": "1 1 1" for n in range(11)},
    ],
)
def test_what_was_not_stored_by_it_is_refused(stored: dict[str, str]) -> None:
    with pytest.raises((ValueError, KeyError)):
        TopRows(10, 2).restore(stored)
