"""Sums of the most frequent keys: exact as long as there is room, and then too low by no more than is said."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.survey.top_rows import TopRows

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
    assert len(rows.rows) <= places
    assert rows.missed * places <= 2 * weights.total()
    for key in records:
        row = rows.get(key)
        if key not in rows.rows:
            assert weights[key] <= rows.missed
        assert records[key] - rows.missed <= row[0] <= records[key]
        assert row[1] <= sizes[key]
    if len(records) <= places:
        assert rows.missed == 0
        assert {key: tuple(row) for key, row in rows.items()} == {key: (records[key], sizes[key]) for key in records}
        most = [row[0] for _, row in rows.most(99)]
        assert most == sorted(records.values(), reverse=True)


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
    assert len(rows.rows) <= 100
