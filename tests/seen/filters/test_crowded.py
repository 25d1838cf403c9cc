"""Chosen digests that meet in the same places: no lookup becomes long, no stash becomes large, no key is lost."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest

from crawler.seen.filters import (
    SEED_ZERO,
    CuckooFilter,
    DigestTable,
    Filter,
    KeyHash,
    load_seen,
    read_seen,
    write_seen,
)
from crawler.seen.slices.digest_batch import MULTIPLIER
from tests.hashing import HASH

CAPACITY = 2**15
BUCKETS = 8_905  # of a cuckoo slice of that capacity
SPREAD = 0xD6E8FEB86659FD93  # as in `cuckoo_slice`


def packed(pairs: list[tuple[int, int]]) -> bytes:
    return b"".join([h1.to_bytes(8, "little") + h2.to_bytes(8, "little") for h1, h2 in pairs])


def on_one_bucket(count: int) -> bytes:
    """For a table: the search for each begins in the same bucket."""
    pick = random.Random(1)
    return packed([(0x7000000000000000 + number, pick.getrandbits(64)) for number in range(count)])


def with_one_half(count: int) -> bytes:
    """The same, and the first halves are even equal."""
    pick = random.Random(2)
    return packed([(0x7000000000000000, pick.getrandbits(64)) for _ in range(count)])


def on_few_buckets(count: int) -> bytes:
    """For a cuckoo filter with tags of 16 bits: both buckets of each are among the first hundred."""
    tags, buckets = np.arange(1, 2**16, dtype=np.uint64), np.arange(100, dtype=np.uint64)
    spread = (tags * np.uint64(SPREAD) >> np.uint64(32)) * np.uint64(BUCKETS) >> np.uint64(32)
    others = (spread[:, np.newaxis] + np.uint64(BUCKETS) - buckets) % np.uint64(BUCKETS)
    at, bucket = np.nonzero(others < 100)
    firsts = (buckets[bucket] * np.uint64(2**32) // np.uint64(BUCKETS) + np.uint64(1)) << np.uint64(32)
    seconds = (tags[at] << np.uint64(48)) * np.uint64(pow(MULTIPLIER, -1, 2**64))
    assert len(firsts) > count
    return np.stack((firsts, seconds), axis=1)[:count].tobytes()


def as_earlier_versions_made_it(made: Filter) -> Filter:
    """The same filter with a slice that multiplies nothing, and no hash named."""
    shot = made.snapshot()
    state: Any = {name: value for name, value in shot.state.items() if name != "hash"}
    for part in state["slices"]:
        part.pop("multiplier", None)
    return load_seen(state, {part.name: part.buffer for part in shot.segments})


def longest_run(seen: Filter) -> int:
    """The most used places of a table that follow one another."""
    longest = 0
    for part in seen.snapshot().segments[:-1]:
        used = np.frombuffer(part.buffer, np.uint64).reshape(-1, 2)[:, 0] != 0
        ends = np.flatnonzero(~np.concatenate(([False], used, [False])))
        longest = max(longest, int(np.diff(ends).max()) - 1)
    return longest


def stashed(seen: Filter) -> int:
    state: Any = seen.snapshot().state
    return max(len(part["stash"]) for part in state["slices"])


def test_a_table_of_seed_0_is_closed_when_chosen_digests_crowd_it() -> None:
    digests = on_one_bucket(10_000) + with_one_half(10_000)
    seen = as_earlier_versions_made_it(DigestTable(CAPACITY, hash=SEED_ZERO))
    assert seen.hash == SEED_ZERO
    assert len(seen.add_digests(digests)) == 20_000
    assert all(seen.contains_digests(digests))
    assert longest_run(seen) < 2_000
    assert len(seen.statistics()["slices"]) == 2, "the next one cannot be crowded"
    assert len(seen.add_digests(digests)) == 0


@pytest.mark.parametrize("given", [HASH, None], ids=["blake2b", "mmh3"])
def test_new_slices_cannot_be_crowded(given: KeyHash | None) -> None:
    hash = given or KeyHash.new("mmh3")
    table = DigestTable(CAPACITY, hash=hash)
    cuckoo = CuckooFilter(0.001, CAPACITY, hash=hash)
    if hash is HASH:
        # Nobody can choose digests here: only keys.
        table.update(str(number) for number in range(20_000))
        cuckoo.update(str(number) for number in range(20_000))
    else:
        table.add_digests(on_one_bucket(10_000) + with_one_half(10_000))
        cuckoo.add_digests(on_few_buckets(20_000))
    assert longest_run(table) < 400
    assert stashed(cuckoo) == 0
    for seen in (table, cuckoo):
        assert len(seen.statistics()["slices"]) == 1
        file = io.BytesIO()
        write_seen(file, seen)
        again = read_seen(io.BytesIO(file.getvalue()), limit=2**24)
        probe = on_one_bucket(100) + on_few_buckets(100)
        assert again.contains_digests(probe) == seen.contains_digests(probe)
        assert again.snapshot().state == seen.snapshot().state
