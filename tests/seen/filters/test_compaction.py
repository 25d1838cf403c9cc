"""One slice in place of a chain: nothing is forgotten, the bound holds, and the figures go on."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.seen.filters import JSON, BloomFilter, FilterError, ScalableBloomFilter, load_seen
from crawler.seen.filters.chain_compaction import SuccessorSlice
from crawler.seen.filters.planning import next_size
from tests.examples import TIMES
from tests.hashing import HASH, digest_keys

SIZE = 16


def compacted(seen: ScalableBloomFilter, digests: bytes) -> ScalableBloomFilter:
    successor = seen.successor()
    successor.put(digests)
    seen.succeed(successor)
    return seen


class Journalled:
    """A seen-set with the journal of what it found new, a compaction under way, and a snapshot to fall back to."""

    def __init__(self) -> None:
        self.seen = ScalableBloomFilter(0.01, 8, hash=HASH)
        self.journal = b""
        self.successor: SuccessorSlice | None = None
        self.read = 0
        self.kept = (*self.stored(), 0)
        self.sealed: dict[str, bytes] = {}

    def stored(self) -> tuple[dict[str, JSON], dict[str, bytes]]:
        shot = self.seen.snapshot()
        return shot.state, {part.name: bytes(part.buffer) for part in shot.segments}

    def add(self, keys: list[str]) -> None:
        digests = digest_keys(keys)
        for position in self.seen.add_digests(digests):
            self.journal += digests[position * SIZE : (position + 1) * SIZE]

    def advance(self, keys: int) -> None:
        self.successor = self.successor or self.seen.successor()
        piece = self.journal[self.read : self.read + keys * SIZE]
        if len(piece) > self.successor.room * SIZE:
            self.successor, self.read = None, 0
            return
        self.successor.put(piece)
        self.read += len(piece)
        if self.read == len(self.journal):
            self.seen.succeed(self.successor)
            self.successor, self.read = None, 0

    def checkpoint(self) -> None:
        self.kept = (*self.stored(), len(self.journal))
        for part in self.seen.snapshot().segments:
            if part.sealed:
                assert self.sealed.setdefault(part.name, bytes(part.buffer)) == bytes(part.buffer)

    def crash(self) -> None:
        state, segments, end = self.kept
        loaded = load_seen(state, {name: memoryview(bytearray(data)) for name, data in segments.items()})
        assert isinstance(loaded, ScalableBloomFilter)
        loaded.restore(self.journal[end:])
        assert len(loaded) == len(self.seen)
        self.seen, self.successor, self.read = loaded, None, 0

    def check(self) -> None:
        assert all(self.seen.contains_digests(self.journal))
        assert len(self.seen) == len(self.journal) // SIZE
        assert sum(part["fpp_design"] for part in self.seen.statistics()["slices"]) < 0.01


acts = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 2_000).map(str), max_size=60)),
    st.tuples(st.just("advance"), st.integers(1, 60)),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("crash")),
)


@settings(max_examples=44 * TIMES)
@given(st.lists(acts, max_size=40))
def test_whatever_happens_meanwhile_no_key_is_denied(done: list[tuple[object, ...]]) -> None:
    made = Journalled()
    for name, *arguments in done:
        getattr(made, str(name))(*arguments)
        made.check()


def test_the_bound_holds_however_often_and_full() -> None:
    draw = np.random.default_rng(6)
    seen, journal = ScalableBloomFilter(0.02, 500, hash=HASH), b""
    absent = draw.bytes(200_000 * SIZE)
    for number in range(4):
        more = draw.bytes(2 * max(2_000, len(seen)) * SIZE)
        seen.restore(more)
        journal += more
        found = sum(seen.contains_digests(absent)) / 200_000
        assert found <= 0.02 + 3 * (0.02 * 0.98 / 200_000) ** 0.5
        assert seen.slices > 2
        compacted(seen, journal)
        assert seen.slices == 1
        assert seen.statistics()["compactions"] == number + 1
        assert all(seen.contains_digests(journal))
        found = sum(seen.contains_digests(absent)) / 200_000
        assert found <= 0.02 * 0.85


def test_the_expected_skips_go_on_and_are_those_that_come() -> None:
    chance = random.Random(7)
    skipped = 0.0
    expected = 0.0
    for _ in range(10):
        seen, journal = ScalableBloomFilter(0.2, 50, hash=HASH), b""
        for _ in range(3_000):
            digest = chance.randbytes(SIZE)
            if seen.add_digests(digest):
                journal += digest
            else:
                skipped += 1
            if seen.slices > 2:
                before = seen.statistics()["expected_urls_skipped"]
                compacted(seen, journal)
                assert seen.statistics()["expected_urls_skipped"] == pytest.approx(before, rel=1e-9)
        assert seen.statistics()["compactions"] > 4
        expected += seen.statistics()["expected_urls_skipped"]
    assert expected > 1_000
    assert abs(skipped - expected) < 4 * expected**0.5 + 0.02 * expected


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_slice_that_lacks_keys_or_holds_too_many_takes_no_place(missing: int) -> None:
    seen = ScalableBloomFilter(0.01, 10, hash=HASH)
    digests = digest_keys([str(number) for number in range(40)])
    seen.restore(digests)
    successor = SuccessorSlice("paired", 40 - missing, 0.005) if missing == 2 else seen.successor()
    successor.put(digests if missing != 1 else digests[SIZE:])
    if not missing:
        seen.succeed(successor)
        assert seen.slices == 1
        return
    with pytest.raises(FilterError, match="cannot replace a chain of 40"):
        seen.succeed(successor)
    assert seen.slices > 1
    assert all(seen.contains_digests(digests))


def test_the_slice_that_will_be_built_counts_in_the_next_size() -> None:
    digests = np.random.default_rng(9).bytes(1_501 * SIZE)
    seen = ScalableBloomFilter(0.01, 500, hash=HASH)
    seen.restore(digests[: 1_000 * SIZE])
    compacted(seen, digests[: 1_000 * SIZE])
    fixed = BloomFilter(10_000, 0.01, hash=HASH)
    assert next_size(fixed.statistics(), fixed.parameters()) is None
    both = next_size(seen.statistics(), seen.parameters(), compact_slices=2)
    alone = next_size(seen.statistics(), seen.parameters())
    before = seen.statistics()["bytes"]
    seen.restore(digests[1_000 * SIZE :])
    assert alone == seen.statistics()["bytes"] - before
    assert both is not None
    compacted(seen, digests)
    assert both - alone == pytest.approx(seen.statistics()["bytes"], rel=0.01)
