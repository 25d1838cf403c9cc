"""What is particular to the kinds of seen-set: forgetting, being full, uniting; ``test_behaviour`` has the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.seen.filters import (
    DIGEST_BYTES,
    AbsentKeyError,
    Bitmap,
    BloomFilter,
    CountingFilter,
    CuckooFilter,
    DigestTable,
    Filter,
    FilterError,
    ForgettingFilter,
    FullError,
    ScalableBloomFilter,
    load_seen,
)
from crawler.seen.slices.classic_slice import ClassicSlice, classic_size
from crawler.seen.slices.counting_slice import CountingSlice
from crawler.seen.slices.cuckoo_slice import CuckooSlice
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from tests.examples import TIMES, long_or
from tests.hashing import HASH, digest_keys, random_digests
from tests.seen.filters.kinds import FORGETTING, MAKERS, Maker, told, urls

FULL: dict[str, tuple[Maker, float]] = {
    "scalable": (lambda: ScalableBloomFilter(0.01, 20_000, hash=HASH), 0.01),
    "scalable classic": (lambda: ScalableBloomFilter(0.01, 20_000, layout="classic", hash=HASH), 0.01),
    "bloom": (lambda: BloomFilter(100_000, 0.01, hash=HASH), 0.01),
    "bloom classic": (lambda: BloomFilter(100_000, 0.01, layout="classic", hash=HASH), 0.01),
    "bloom blocked": (lambda: BloomFilter(100_000, 0.01, layout="blocked", hash=HASH), 0.01),
    "one slice": (lambda: ScalableBloomFilter(0.2, 100_000, hash=HASH), 0.2),
    "bitmap": (lambda: Bitmap(100_000, 0.01, hash=HASH), 0.01),
    "counting": (lambda: CountingFilter(0.01, 20_000, hash=HASH), 0.01),
    "cuckoo 8": (lambda: CuckooFilter(0.1, 20_000, hash=HASH), 0.1),
    "cuckoo 16": (lambda: CuckooFilter(0.001, 100_000, growth=None, hash=HASH), 0.000112),
    "digest 64": (lambda: DigestTable(20_000, digest_bits=64, hash=HASH), 2.0**-32),
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_filter_is_wrong_as_often_as_it_says(name: str) -> None:
    """100,000 keys in, absent ones asked: within the bound, and what the estimate says (four sigma, 5%)."""
    maker, bound = FULL[name]
    seen = maker()
    part = 0
    while len(seen) < 100_000:
        part += 1
        seen.add_digests(random_digests(part, min(2000, 100_000 - len(seen))))
    absent = long_or(30_000, 150_000)
    wrong = sum(seen.contains_digests(random_digests(0, absent)))
    assert wrong <= bound * absent * 1.02 + 3 * math.sqrt(bound * absent) + 1e-9
    figures = seen.statistics()
    expected = figures["fpp_estimated"] * absent
    assert abs(wrong - expected) <= 4 * math.sqrt(expected) + 0.05 * expected
    assert figures["count_estimated"] == pytest.approx(100_000, rel=0.02)


operations = st.lists(st.tuples(st.sampled_from(["add", "forget"]), st.integers(0, 80).map(str)), max_size=250)


@pytest.mark.parametrize("name", FORGETTING)
@settings(max_examples=19 * TIMES)
@given(done=operations)
def test_forgetting_denies_no_key_that_is_in(name: str, done: list[tuple[str, str]]) -> None:
    seen = MAKERS[name]()
    assert isinstance(seen, ForgettingFilter)
    known: set[str] = set()
    for operation, key in done:
        if operation == "add" and seen.add(key):
            known.add(key)
        elif operation == "forget" and key in known and not seen.forget_digests(digest_keys([key])):
            known.remove(key)
    assert len(seen) == len(known)
    assert all(seen.contains_many(sorted(known)))


@pytest.mark.parametrize("name", [name for name in FORGETTING if name != "counting 2"])
def test_what_was_forgotten_is_new_again(name: str) -> None:
    """Two-bit counters saturate, so they are left out: there a forgotten key may stay."""
    seen = MAKERS[name]()
    assert isinstance(seen, ForgettingFilter)
    keys = [key for key in urls(0, 250) if seen.add(key)]
    kept = seen.forget_digests(digest_keys(keys[::2]))
    assert len(kept) <= 6
    assert len(seen) == len(keys) - len(keys[::2]) + len(kept)
    back = seen.contains_many(keys)
    assert all(back[1::2])
    assert sum(back[::2]) <= 12
    for key in keys[1::2]:
        seen.forget_digests(digest_keys([key]))
    assert len(seen) <= 6
    assert sum(seen.contains_many(urls(0, 250))) <= 12


@pytest.mark.parametrize("name", FORGETTING)
def test_forgetting_an_absent_key_is_an_error_that_changes_nothing(name: str) -> None:
    seen = MAKERS[name]()
    assert isinstance(seen, ForgettingFilter)
    seen.add_many(urls(0, 50))
    before = told(seen)
    absent = next(key for key in urls(10**6, 10**6 + 100) if key not in seen)
    with pytest.raises(AbsentKeyError):
        seen.forget(absent)
    assert seen.forget_digests(digest_keys([absent, absent])) == [0, 1]
    assert told(seen) == before


def test_a_cuckoo_filter_of_fixed_size_says_when_it_is_full() -> None:
    seen = CuckooFilter(0.001, 1000, growth=None, hash=HASH)
    fresh = len(seen.add_many(urls(0, 990)))
    before = told(seen)
    with pytest.raises(FullError, match=str(fresh)):
        seen.add_many(urls(1000, 1030))
    for key in urls(1000, 1100):
        if len(seen) < 1000:
            seen.add(key)
    absent = next(key for key in urls(2000, 2100) if key not in seen)
    with pytest.raises(FullError):
        seen.add(absent)
    assert len(seen) == 1000
    assert all(seen.contains_many(urls(0, 990)))
    seen.forget(urls(0, 1)[0])
    assert seen.add("https://one.more/")
    assert before["count"] == fresh


@pytest.mark.parametrize("tag_bits", [8, 16, 32])
def test_a_cuckoo_slice_filled_beyond_reason_keeps_every_key(tag_bits: int) -> None:
    """To every last place and more: what finds no room goes to the stash."""
    part = CuckooSlice(50, tag_bits)
    digests = digest_keys(urls(0, 205))
    part.put(Batch(digest_words(digests[: 150 * DIGEST_BYTES])))
    for h1, h2 in digest_words(digests[150 * DIGEST_BYTES :]).tolist():
        part.put(Batch.of_one(h1, h2))
    assert part.holds(Batch(digest_words(digests))).all()
    assert part.count_estimated() == 205
    for h1, h2 in digest_words(digests).tolist():
        assert part.forget_one(h1, h2)
    assert part.count_estimated() == 0


@st.composite
def two_sets(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    numbers = st.sets(st.integers(0, 400).map(str), max_size=200)
    return sorted(draw(numbers)), sorted(draw(numbers))


UNITED: dict[str, Maker] = {
    **MAKERS,
    "bloom guava": lambda: BloomFilter(400, 0.01, layout="guava", bits=3840, hashes=7),
    "bloom by geometry": lambda: BloomFilter.with_geometry(4000, 5, hash=HASH),
    "counting 2 fixed": lambda: CountingFilter(0.01, 300, growth=None, counter_bits=2, hash=HASH),
    "counting 4 fixed": lambda: CountingFilter(0.01, 300, growth=None, hash=HASH),
    "cuckoo 16 fixed": lambda: CuckooFilter(0.01, 500, growth=None, hash=HASH),
    "cuckoo 8 fixed": lambda: CuckooFilter(0.1, 500, growth=None, hash=HASH),
}
CHAINS = {name for name in MAKERS if name.startswith(("scalable", "counting", "cuckoo")) and "fixed" not in name}
PROBE = [str(number) for number in range(3000)]


def with_keys(name: str, *sets: list[str]) -> Filter:
    seen = UNITED[name]()
    assert isinstance(seen, Filter)
    for keys in sets:
        seen.restore(seen.digests(keys))
    return seen


@pytest.mark.parametrize("name", UNITED)
@settings(max_examples=3 * TIMES)
@given(sets=two_sets())
def test_the_union_answers_as_if_the_keys_of_both_had_been_added(name: str, sets: tuple[list[str], list[str]]) -> None:
    left, right = with_keys(name, sets[0]), with_keys(name, sets[1])
    known = [a or b for a, b in zip(left.contains_many(PROBE), right.contains_many(PROBE), strict=True)]
    bound = left.statistics()["fpp_bound"] + right.statistics()["fpp_bound"]
    left.unite(right)
    answers = left.contains_many(PROBE)
    if name in CHAINS:
        assert answers == known, "slices stand side by side: what either knew is known, and nothing else"
        assert left.statistics()["fpp_bound"] <= bound
        assert left.statistics()["fpp_bound"] > bound / 2
    else:
        assert answers == with_keys(name, *sets).contains_many(PROBE)
    assert all(left.contains_many([*sets[0], *sets[1]]))
    # Kinds that know how many are in both say so, or estimate it.
    once, twice = len({*sets[0], *sets[1]}), len(sets[0]) + len(sets[1])
    if name.startswith("digest"):
        assert len(left) == once
    elif name.startswith(("bloom", "bitmap")):
        assert len(left) == pytest.approx(once, abs=5 + 0.1 * once)
    else:
        assert len(left) == twice


@pytest.mark.parametrize(
    ("bits", "hashes", "fpp"),
    [(10, 7, 0.00819), (15, 10, 0.000744), (20, 14, 0.0000671), (1, 1, 0.632), (60, 30, None)],
)
def test_bits_per_key_give_the_known_hashes_and_rates(bits: int, hashes: int, fpp: float | None) -> None:
    figures = BloomFilter.with_bits_per_key(64_000, bits, hash=HASH).statistics()
    assert figures["slices"][0]["bits"] == 64_000 * bits
    assert figures["slices"][0]["hashes"] == hashes
    if fpp is not None:
        assert figures["fpp_target"] == pytest.approx(fpp, rel=0.002)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BloomFilter(1000, 0.01, hash=HASH),
        lambda: Bitmap(1000, 0.01, hash=HASH),
        lambda: CountingFilter(0.01, 1000, growth=None, hash=HASH),
    ],
)
@pytest.mark.parametrize("keys", [1500, 2000, 3000])
def test_an_overfull_filter_is_never_estimated_above_its_bound(make: Callable[[], Filter], keys: int) -> None:
    seen, other = make(), make()
    seen.add_many(urls(0, keys))
    figures = seen.statistics()
    assert 0.01 < figures["fpp_estimated"] <= figures["fpp_bound"]
    other.add_many(urls(keys, keys + 900))
    other.unite(seen)
    figures = other.statistics()
    assert 0.01 < figures["fpp_estimated"] <= figures["fpp_bound"]


MAKE_EMPTY: dict[str, Callable[[int, float], ClassicSlice | CountingSlice]] = {
    "classic": ClassicSlice.sized,
    "counting": lambda capacity, fpp: CountingSlice.sized(capacity, fpp, 4),
}


def wrong_answers(make: Callable[[], ClassicSlice | CountingSlice], capacity: int, asked: int, seed: int) -> int:
    """Of ``asked`` absent keys: how many some full filters, each asked 20,000, say they hold."""
    draw = np.random.default_rng(seed)
    wrong = 0
    for _ in range(asked // 20_000):
        part = make()
        part.put(Batch(digest_words(draw.bytes(16 * capacity))))
        wrong += int(part.holds(Batch(digest_words(draw.bytes(16 * 20_000)))).sum())
    return wrong


@pytest.mark.parametrize("kind", MAKE_EMPTY)
@settings(max_examples=10 * TIMES)
@given(capacity=st.integers(1, 60), fpp=st.sampled_from([0.2, 0.03, 1e-2, 1e-3, 1e-4]), seed=st.integers(0, 2**32))
def test_tiny_filters_keep_their_bound(kind: str, capacity: int, fpp: float, seed: int) -> None:
    """For 10 keys at 1e-4 the textbook formula gives a filter that is wrong 1.5 times as often as it should be."""
    asked = 20_000 * max(3, round(12 / fpp / 20_000))
    wrong = wrong_answers(lambda: MAKE_EMPTY[kind](capacity, fpp), capacity, asked, seed)
    # Filters differ from one another: of a handful, some are fuller than the mean.
    assert wrong < 1.3 * asked * fpp + 5 * math.sqrt(asked * fpp)


def test_a_filter_of_a_usual_size_has_the_bits_of_the_formula() -> None:
    """Stored filters can be united with new ones."""
    for capacity, fpp, bits, hashes in (
        (1_000, 1e-3, 14_400, 10),
        (10_000, 1e-6, 287_616, 20),
        (100_000, 1e-5, 2_396_736, 17),
        (10_000_000, 1e-3, 143_920_320, 10),
    ):
        assert classic_size(capacity, fpp) == (bits, hashes)
    assert classic_size(10, 1e-5) == (320, 17)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: BloomFilter(0, hash=HASH), "capacity"),
        (lambda: BloomFilter(10, 1.5, hash=HASH), "fpp"),
        (lambda: BloomFilter(10, layout="round", hash=HASH), "layout"),
        (lambda: BloomFilter(10, bits=640, hash=HASH), "bits and hashes"),
        (lambda: BloomFilter.with_geometry(640, 31, hash=HASH), "31 hashes"),
        (lambda: CountingFilter(counter_bits=3, hash=HASH), "counter_bits"),
        (lambda: CountingFilter(5e-324, hash=HASH), "memory"),
        (lambda: BloomFilter.with_geometry(640, 7, 10**400, hash=HASH), "memory"),
        (lambda: BloomFilter.with_bits_per_key(10**400, 0.5, hash=HASH), "memory"),
        (lambda: CuckooFilter(1e-12, hash=HASH), "tag"),
        (lambda: ScalableBloomFilter(0.1, 2.5, hash=HASH), "2.5"),  # type: ignore[arg-type]
        (lambda: DigestTable(digest_bits=32, hash=HASH), "digest_bits"),
    ],
)
def test_parameters_that_make_no_filter_are_named(make: Maker, named: str) -> None:
    with pytest.raises(FilterError, match=named):
        make()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", -1),
        ("capacity", float("nan")),
        ("built", 10**30),
        ("fpp", "small"),
    ],
)
def test_a_slice_whose_stored_figures_cannot_be_is_refused(name: str, value: object) -> None:
    """The checksum finds damage. Figures that some other program wrote would be used, an hour later, otherwise."""
    seen = BloomFilter(10, hash=HASH)
    seen.add_many(["a", "b", "c"])
    shot = seen.snapshot()
    state = json.loads(json.dumps(shot.state))
    state["slices"][0][name] = value
    with pytest.raises(FilterError, match="slice\\-0000"):
        load_seen(state, {part.name: part.buffer for part in shot.segments})
