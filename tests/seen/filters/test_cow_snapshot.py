"""A copy made piece by piece is the memory as it was, whatever is added and forgotten while it is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.seen.slices.counting_slice import CountingSlice
from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.cuckoo_slice import CuckooSlice
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from tests.examples import TIMES
from tests.hashing import digest_key, digest_keys

SLICES: dict[str, Callable[[], CountingSlice | CuckooSlice]] = {
    "counting 2": lambda: CountingSlice(640, 4, 2),
    "counting 4": lambda: CountingSlice(640, 4, 4),
    "counting 8": lambda: CountingSlice(640, 4, 8),
    "cuckoo 8": lambda: CuckooSlice(60, 8),
    "cuckoo 16": lambda: CuckooSlice(60, 16),
    "cuckoo 32": lambda: CuckooSlice(60, 32),
}

keys = st.integers(0, 60).map(str)
acts = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(keys, min_size=1, max_size=30, unique=True)),
        st.tuples(st.just("put one"), st.lists(keys, min_size=1, max_size=5)),
        st.tuples(st.just("forget"), st.lists(keys, min_size=1, max_size=5)),
        st.tuples(st.just("advance"), st.just([])),
    ),
    max_size=25,
)


def change(part: CountingSlice | CuckooSlice, act: str, some: list[str]) -> None:
    if act == "put":
        part.put(Batch(digest_words(digest_keys(some))))
    for key in some if act != "put" else ():
        if act == "put one":
            part.put(Batch.of_one(*digest_key(key)))
        else:
            part.forget_one(*digest_key(key))


@pytest.mark.parametrize("name", SLICES)
@settings(max_examples=16 * TIMES)
@given(before=acts, during=acts, piece=st.integers(1, 20))
def test_the_copy_is_the_memory_of_that_moment(
    name: str, before: list[tuple[str, list[str]]], during: list[tuple[str, list[str]]], piece: int
) -> None:
    part = SLICES[name]()
    for act, some in before:
        change(part, act, some)
    then = bytes(part.words)
    copying = CowSnapshot(part, piece)
    for act, some in during:
        if act == "advance":
            copying.advance()
        else:
            change(part, act, some)
    while copying.advance():
        pass
    assert bytes(copying.words) == then
    assert part.cow_snapshot is None, "the copy is no longer held on to"
