"""The advisor's arithmetic beside the filters as they are really made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from crawler.seen.filters import (
    KINDS,
    Bitmap,
    BloomFilter,
    CountingFilter,
    CuckooFilter,
    DigestTable,
    FilterError,
    ScalableBloomFilter,
    SeenSet,
)
from crawler.seen.filters.advisor import advise, plan, plan_compacted, schedule
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


@pytest.mark.parametrize("urls", [100, 700, 3_000, 20_000])
@pytest.mark.parametrize("most", [2, 3, 5])
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


def test_a_compacted_chain_is_smaller_than_one_that_is_not() -> None:
    (plain,) = (made for made in plan(10**9) if made.kind == "scalable")
    made = plan_compacted(10**9)
    assert made.size < plain.size
    assert made.bits_per_url < 24
    assert made.peak < plain.size * 2
    with pytest.raises(FilterError, match="at least 1 URL"):
        plan_compacted(0)


def test_a_plan_names_every_kind_and_what_it_takes() -> None:
    plans = {made.kind: made for made in plan(1_000_000_000, 0.001)}
    assert set(plans) == set(KINDS)
    # A thousand million URLs fit into 3.2 GB with the default.
    assert plans["scalable"].size < 3.2e9
    assert plans["scalable"].slices == 10
    assert plans["scalable"].bits_per_url == plans["scalable"].size * 8 / 1e9
    for made in plans.values():
        assert made.fpp <= 0.001 * (1 + 1e-9)
        assert made.urls_skipped <= 1e9 * 0.001 / 0.999 * (1 + 1e-9)
    assert plans["bloom"].size < plans["scalable"].size < plans["cuckoo"].size < plans["counting"].size
    assert plans["bitmap"].bits_per_url == pytest.approx(1000, rel=0.01)
    assert [kind for kind, made in plans.items() if made.forgets] == ["counting", "cuckoo"]


def test_a_chain_in_use_is_told_when_the_next_slice_comes_and_what_it_takes() -> None:
    seen = filled(ScalableBloomFilter(0.01, 1000, hash=HASH), 2500)
    advice = advise(seen.statistics(), seen.parameters(), rate=10.0)
    assert (advice.full_at, advice.urls_left, advice.seconds_left) == (3000, 500, 50.0)
    assert advice.warning is None
    before = seen.statistics()["bytes"]
    filled_up = filled(ScalableBloomFilter(0.01, 1000, hash=HASH), 3001).statistics()
    assert advice.next_size == filled_up["bytes"] - before
    assert advice.size_then == filled_up["bytes"]
    assert advice.fpp_then == pytest.approx(filled_up["fpp_estimated"], rel=0.25)
    assert advice.fpp_then < 0.01


def test_a_chain_warns_when_there_is_no_memory_for_the_next_slice() -> None:
    seen = filled(ScalableBloomFilter(0.01, 1000, hash=HASH), 2950)
    advice = advise(seen.statistics(), seen.parameters(), memory=5000)
    assert advice.warning is not None
    assert "in 50 URLs" in advice.warning
    assert "5,000 are free" in advice.warning
    assert advise(seen.statistics(), seen.parameters(), memory=10**9).warning is None


def test_a_filter_of_fixed_size_warns_before_its_target_is_passed() -> None:
    early = filled(BloomFilter(10_000, 0.01, hash=HASH), 5000)
    assert advise(early.statistics(), early.parameters()).warning is None
    assert advise(early.statistics(), early.parameters(), rate=0.1).warning is None
    hurried = advise(early.statistics(), early.parameters(), rate=10.0).warning
    assert hurried == "the fpp reaches its target of 1% after 5,000 more URLs, about 500 s, and then climbs"
    late = filled(BloomFilter(10_000, 0.01, hash=HASH), 9100)
    advice = advise(late.statistics(), late.parameters())
    assert advice.warning == "the fpp reaches its target of 1% after 900 more URLs, and then climbs"
    assert advice.next_size is None
    assert advice.fpp_then == pytest.approx(0.01)
    full = filled(BloomFilter(10_000, 0.01, hash=HASH), 10_000)
    assert advise(full.statistics(), full.parameters()).warning == (
        "the filter is full, with 10,000 keys: its fpp climbs with more (--capacity makes room)"
    )
    passed = filled(BloomFilter(10_000, 0.01, hash=HASH), 15_000)
    advice = advise(passed.statistics(), passed.parameters())
    assert advice.warning is not None
    assert "15,000 keys and was made for 10,000" in advice.warning
    assert advice.fpp_then > 0.02


def test_a_cuckoo_filter_of_fixed_size_warns_before_it_is_full() -> None:
    seen = filled(CuckooFilter(0.01, 1000, growth=None, hash=HASH), 950)
    assert advise(seen.statistics(), seen.parameters()).warning == (
        "the filter is full in 50 URLs, and then accepts no more keys"
    )


def test_what_cannot_be_planned_is_named() -> None:
    with pytest.raises(FilterError, match="at least 1 URL"):
        plan(0)
    with pytest.raises(FilterError, match="fpp"):
        plan(10, 2.0)
    with pytest.raises(FilterError, match="kind exact"):
        next(schedule({"kind": "exact", "capacity": 10}))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: BloomFilter(10**15, 0.001, hash=HASH), "memory|a region has"),
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
