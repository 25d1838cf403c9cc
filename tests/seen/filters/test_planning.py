"""The planned slices beside the filters as they are really made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from crawler.seen.filters import (
    Bitmap,
    BloomFilter,
    CountingFilter,
    CuckooFilter,
    DigestTable,
    FilterError,
    ScalableBloomFilter,
    SeenSet,
)
from crawler.seen.filters.planning import plan, plan_compacted, schedule
from tests.hashing import HASH, digest_keys


def filled(seen: SeenSet, count: int) -> SeenSet:
    seen.restore(digest_keys([f"https://example.org/{number}" for number in range(count)]))
    return seen


SEENS: dict[str, Callable[[], SeenSet]] = {
    "scalable": lambda: ScalableBloomFilter(0.01, 700, hash=HASH),
    "scalable blocked": lambda: ScalableBloomFilter(0.01, 700, growth=1.5, tightening=0.5, layout="blocked", hash=HASH),
    "scalable classic": lambda: ScalableBloomFilter(0.01, 700, layout="classic", hash=HASH),
    "bloom": lambda: BloomFilter(6000, 0.01, hash=HASH),
    "bloom by bits": lambda: BloomFilter.with_bits_per_key(6000, 12, hash=HASH),
    "bitmap": lambda: Bitmap(6000, 0.01, hash=HASH),
    "counting": lambda: CountingFilter(0.01, 700, counter_bits=8, hash=HASH),
    "counting fixed": lambda: CountingFilter(0.01, 6000, growth=None, hash=HASH),
    "cuckoo": lambda: CuckooFilter(0.01, 700, hash=HASH),
    "cuckoo fixed": lambda: CuckooFilter(0.01, 6000, growth=None, hash=HASH),
    "digest": lambda: DigestTable(700, digest_bits=64, hash=HASH),
}


@pytest.mark.parametrize("name", SEENS)
def test_the_schedule_is_the_chain_that_is_made(name: str) -> None:
    seen = filled(SEENS[name](), 5000)
    slices = seen.statistics()["slices"]
    planned = list(islice(schedule(seen.parameters()), len(slices)))
    assert [(part.capacity, part.size * 8) for part in planned] == [(real["capacity"], real["bits"]) for real in slices]
    assert [part.fpp for part in planned] == pytest.approx([real["fpp_design"] for real in slices])


@pytest.mark.parametrize(("urls", "most"), [(100, 2), (700, 3), (3_000, 2), (5_000, 5)])
def test_a_compacted_chain_is_planned_as_it_is_made(urls: int, most: int) -> None:
    """One key after the other; as soon as the chain has ``most`` slices it is rebuilt."""
    seen, journal = ScalableBloomFilter(0.01, 500, hash=HASH), bytearray()
    peak = slices = 0
    for key in range(urls):
        digest = digest_keys([str(key)])
        seen.restore(digest)
        journal += digest
        if seen.slices == slices:
            continue  # the size is that of the slices
        size = seen.statistics()["bytes"]
        if seen.slices >= most:
            successor = seen.successor()
            successor.put(bytes(journal))
            size += successor.filter.words.nbytes
            seen.succeed(successor)
        slices = seen.slices
        peak = max(peak, size)
    made = plan_compacted(urls, 0.01, 500, slices=most)
    assert made.slices == seen.slices
    assert made.size == pytest.approx(seen.statistics()["bytes"], rel=0.01)
    assert made.peak == pytest.approx(peak, rel=0.01)
    assert made.fpp < 0.01


def test_what_cannot_be_planned_is_named() -> None:
    with pytest.raises(FilterError, match="at least 1"):
        plan(0)
    with pytest.raises(FilterError, match="fpp"):
        plan(10, 2.0)
    with pytest.raises(FilterError, match="kind exact"):
        next(schedule({"kind": "exact", "capacity": 10}))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: BloomFilter(10**15, 0.001, hash=HASH), "memory|blocks per region"),
        (lambda: BloomFilter(10**13, 0.001, layout="classic", hash=HASH), "memory"),
        (lambda: Bitmap(10**13, 1e-6, hash=HASH), "memory"),
        (lambda: CuckooFilter(capacity=10**12, hash=HASH), "buckets"),
        (lambda: DigestTable(10**12, hash=HASH), "buckets"),
        (lambda: ScalableBloomFilter(1e-60, hash=HASH), "too small"),
    ],
)
def test_a_filter_too_large_for_this_machine_is_refused_before_it_is_made(
    make: Callable[[], SeenSet], what: str
) -> None:
    with pytest.raises(FilterError, match=what):
        make()
