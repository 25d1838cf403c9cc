"""The scalable chain against a plain set, at its seams: batches, growth, snapshots."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.settings import SeenSettings
from crawler.seen.filters import (
    DIGEST_BYTES,
    FilterError,
    ScalableBloomFilter,
    SeenSet,
    Segment,
    load_seen,
    make_seen,
    read_segment,
    write_segment,
)
from tests.examples import TIMES
from tests.hashing import HASH, digest_keys, random_digests

ROOMY = 1e-9  # an fpp at which the tests never meet a false positive


def urls(start: int, stop: int) -> list[str]:
    return [f"https://www.example.org/{number % 97}/page?id={number}" for number in range(start, stop)]


def stored(seen: SeenSet) -> SeenSet:
    """What comes back after the snapshot went through the format."""
    shot = seen.snapshot()
    return load_seen(shot.state, {segment.name: through_format(segment.buffer) for segment in shot.segments})


def through_format(buffer: memoryview) -> memoryview:
    file = io.BytesIO()
    write_segment(file, {}, buffer)
    file.seek(0)
    return read_segment(file, limit=len(buffer))[1]


def slices(seen: SeenSet) -> list[Segment]:
    return [segment for segment in seen.snapshot().segments if segment.name.startswith("slice")]


def contents(seen: SeenSet) -> tuple[object, list[bytes]]:
    return seen.snapshot().state, [bytes(segment.buffer) for segment in slices(seen)]


def told(seen: SeenSet) -> dict[str, object]:
    """All figures that are a function of the new keys: false positives leave no trace in the journal."""
    return {**seen.statistics(), "fpp_measured": None}


batches = st.lists(st.lists(st.integers(0, 400).map(str), max_size=40), max_size=12)


@given(batches, st.sampled_from(["paired", "blocked"]))
def test_answers_like_a_set(added: list[list[str]], layout: str) -> None:
    seen = ScalableBloomFilter(ROOMY, 50, layout=layout, hash=HASH)
    known: set[str] = set()
    for batch in added:
        fresh = []
        for position, key in enumerate(batch):
            if key not in known:
                known.add(key)
                fresh.append(position)
        assert seen.add_many(batch) == fresh
        assert all(seen.contains_many(batch))
    assert len(seen) == len(known)
    probe = [str(number) for number in range(450)]
    assert seen.contains_many(probe) == [key in known for key in probe]


@given(st.lists(st.integers(0, 3000).map(str), max_size=300), st.sampled_from(["paired", "blocked"]))
def test_the_plain_loop_and_numpy_agree_bit_by_bit(keys: list[str], layout: str) -> None:
    """Also where the filter is so full that it is often wrong: fpp 0.5."""
    whole = ScalableBloomFilter(0.5, 40, layout=layout, hash=HASH)
    single = ScalableBloomFilter(0.5, 40, layout=layout, hash=HASH)
    for start in range(0, len(keys), 30):
        part = digest_keys(keys[start : start + 30])
        one_by_one = [
            single.contains_digests(part[at : at + DIGEST_BYTES])[0] for at in range(0, len(part), DIGEST_BYTES)
        ]
        assert whole.contains_digests(part) == one_by_one
        fresh = whole.add_digests(part)
        new = b"".join(part[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] for at in fresh)
        for at in range(0, len(new), DIGEST_BYTES):
            single.restore(new[at : at + DIGEST_BYTES])
    assert contents(whole) == contents(single)


def test_a_repeated_key_is_new_once_in_small_and_large_batches() -> None:
    for size in (3, 200):
        seen = ScalableBloomFilter(ROOMY, 1000, hash=HASH)
        keys = urls(0, size)
        assert seen.add_many(keys + keys[::-1] + keys) == list(range(size))
        assert len(seen) == size


def test_keys_that_share_a_block_within_one_batch_are_all_kept() -> None:
    """4,000 keys into 60 blocks: every block is written dozens of times by one batch."""
    seen = ScalableBloomFilter(0.9, 400, growth=1.0, hash=HASH)
    keys = urls(0, 4000)
    seen.add_many(keys)
    assert all(seen.contains_many(keys))


def test_a_batch_fills_a_slice_to_its_capacity_before_the_next_one_opens() -> None:
    seen = ScalableBloomFilter(ROOMY, 100, hash=HASH)
    seen.add_many(urls(0, 90))
    seen.add_many(urls(90, 350))
    seen.add_many(urls(350, 353))
    assert [part["count"] for part in seen.statistics()["slices"]] == [100, 200, 53]
    assert [segment.sealed for segment in slices(seen)] == [True, True, False]
    assert all(seen.contains_many(urls(0, 353)))


def test_a_full_slice_stays_the_last_until_a_key_needs_the_next() -> None:
    seen = ScalableBloomFilter(ROOMY, 100, hash=HASH)
    seen.add_many(urls(0, 100))
    assert [segment.sealed for segment in slices(seen)] == [True]
    seen.add("https://one.more/")
    assert [segment.sealed for segment in slices(seen)] == [True, False]


def test_a_sealed_slice_never_changes() -> None:
    seen = ScalableBloomFilter(0.01, 500, hash=HASH)
    seen.add_many(urls(0, 500))
    before = bytes(slices(seen)[0].buffer)
    seen.add_many(urls(500, 5000))
    assert bytes(slices(seen)[0].buffer) == before


@settings(max_examples=13 * TIMES)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=8), st.integers(1, 50))
def test_restore_rebuilds_the_same_chain_whatever_the_batches(sizes: list[int], step: int) -> None:
    live = ScalableBloomFilter(0.05, 64, hash=HASH)
    journal = b""
    at = 0
    for size in sizes:
        digests = digest_keys(urls(at, at + size))
        fresh = live.add_digests(digests)
        journal += b"".join(digests[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES] for i in fresh)
        at += size
    again = ScalableBloomFilter(0.05, 64, hash=HASH)
    for start in range(0, len(journal), step * DIGEST_BYTES):
        again.restore(journal[start : start + step * DIGEST_BYTES])
    assert contents(again) == contents(live)
    assert told(again) == told(live)


@settings(max_examples=13 * TIMES)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_a_snapshot_written_while_keys_come_in_and_the_journal_give_the_live_filter(
    before: int, during: int, after: int
) -> None:
    live = ScalableBloomFilter(0.02, 100, hash=HASH)
    live.add_many(urls(0, before))
    shot = live.snapshot()
    journal = b""
    for start, stop in ((before, before + during), (before + during, before + during + after)):
        digests = digest_keys(urls(start, stop))
        fresh = live.add_digests(digests)
        journal += b"".join(digests[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES] for i in fresh)
        if start == before:
            # The live views are read only now, half-way through what came after the snapshot.
            segments = {segment.name: through_format(segment.buffer) for segment in shot.segments}
    resumed = load_seen(shot.state, segments)
    resumed.restore(journal)
    assert contents(resumed) == contents(live)
    assert told(resumed) == told(live)


def test_a_stored_filter_is_the_same_filter() -> None:
    seen = make_seen(SeenSettings(fpp=0.01, capacity=1000, growth=1.5, tightening=0.7), hash=HASH)
    seen.add_many(urls(0, 3000))
    again = stored(seen)
    assert contents(again) == contents(seen)
    assert again.parameters() == seen.parameters()
    assert again.statistics() == seen.statistics()
    assert again.add_many(urls(2990, 3010)) == seen.add_many(urls(2990, 3010))


def test_a_million_keys_from_a_first_slice_of_a_quarter_million_stay_within_the_bound() -> None:
    bound = 0.001
    seen = ScalableBloomFilter(bound, 250_000, hash=HASH)
    skipped = 0
    for part in range(100):
        skipped += 10_000 - len(seen.add_digests(random_digests(part, 10_000)))
    for part in range(100):
        assert all(seen.contains_digests(random_digests(part, 10_000)))
    absent = 500_000
    wrong = sum(sum(seen.contains_digests(random_digests(part, 50_000))) for part in range(1_000, 1_010))
    assert wrong <= bound * absent + 3 * math.sqrt(bound * absent)
    figures = seen.statistics()
    estimated = figures["fpp_estimated"] * absent
    assert abs(wrong - estimated) <= 4 * math.sqrt(estimated) + 0.03 * estimated
    assert abs(skipped - figures["expected_urls_skipped"]) <= 4 * math.sqrt(skipped)
    assert figures["count"] == 1_000_000 - skipped == len(seen)
    assert abs(figures["count_estimated"] / len(seen) - 1) < 0.01


@pytest.mark.parametrize("layout", ["paired", "blocked"])
@pytest.mark.parametrize("fpp", [0.2, 0.01, 1e-4])
def test_a_full_slice_has_the_fpp_it_was_designed_for(fpp: float, layout: str) -> None:
    seen = ScalableBloomFilter(fpp, 60_000, layout=layout, hash=HASH)
    part = 0
    while len(seen) < 60_000:
        part += 1
        seen.add_digests(random_digests(part, min(500, 60_000 - len(seen))))
    design = seen.statistics()["slices"][0]["fpp_design"]
    wrong = sum(seen.contains_digests(random_digests(0, 300_000)))
    expected = design * 300_000
    # A slice is sized for somewhat more skipped keys than there are, so a large fpp comes out smaller.
    spread = 4 * math.sqrt(expected)
    assert (0.95 - 3 * design) * expected - spread <= wrong <= 1.05 * expected + spread


def test_single_keys_and_membership() -> None:
    seen = ScalableBloomFilter(ROOMY, 10, hash=HASH)
    assert seen.add("a")
    assert not seen.add("a")
    assert "a" in seen
    assert "b" not in seen
    assert len(seen) == 1
    assert seen.add_many([]) == []
    assert seen.contains_many([]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"fpp": 0.0},
        {"fpp": 1.0},
        {"fpp": math.nan},
        {"capacity": 0},
        {"growth": 0.5},
        {"tightening": 1.0},
        {"tightening": 0.0},
        {"layout": "square"},
    ],
)
def test_parameters_that_make_no_filter_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(FilterError, match=next(iter(wrong))):
        ScalableBloomFilter(**wrong, hash=HASH)  # type: ignore[arg-type]


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(FilterError, match="sieve"):
        make_seen(SeenSettings(kind="sieve"), hash=HASH)


def test_stored_parts_that_do_not_fit_together_are_named() -> None:
    seen = ScalableBloomFilter(0.01, 100, hash=HASH)
    seen.add_many(urls(0, 150))
    shot = seen.snapshot()
    segments = {segment.name: memoryview(bytearray(segment.buffer)) for segment in shot.segments}
    with pytest.raises(FilterError, match="slice-0001"):
        load_seen(shot.state, {"slice-0000": segments["slice-0000"]})
    with pytest.raises(FilterError, match="slice-0000"):
        load_seen(shot.state, segments | {"slice-0000": segments["slice-0000"][:-64]})


def test_digests_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        ScalableBloomFilter(hash=HASH).add_digests(b"x" * 20)
