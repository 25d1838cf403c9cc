"""Chosen keys: where they can be chosen, the figures show it; where there is a secret, they do no harm."""

from __future__ import annotations

import random

import numpy as np
import pytest

from crawler.seen.filters import SEED_ZERO, Filter, KeyHash, ScalableBloomFilter
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from tests.seen.filters.kinds import MAKERS

CAPACITY = 2**19  # its slice is larger than the sample
CANDIDATES = 2_200_000
SHARE = 0.05  # of the blocks, on which all chosen keys fall


def in_one_layout(hash: KeyHash) -> ScalableBloomFilter:
    return ScalableBloomFilter(0.001, CAPACITY, layout="blocked", hash=hash)


@pytest.fixture(scope="module")
def chosen() -> list[bytes]:
    """A fifth of the keys that the slice is made for, chosen by their digests of seed 0: all of them fall into the last
    blocks, behind the first mebibyte."""
    keys = [b"%d" % number for number in range(CANDIDATES)]
    batch = Batch(digest_words(SEED_ZERO.digest_keys(keys)))
    fractions = batch.fractions[::2].astype(np.float64) / 2.0**32
    return [keys[at] for at in np.flatnonzero(fractions > 1 - SHARE).tolist()]


def real_fpp(seen: Filter) -> float:
    absent = [b"absent %d" % number for number in range(100_000)]
    return sum(seen.contains_many(absent)) / len(absent)


def test_keys_chosen_for_seed_0_raise_the_fpp_and_the_figures_say_so(chosen: list[bytes]) -> None:
    seen = in_one_layout(SEED_ZERO)
    seen.update(chosen)
    assert len(seen) < 0.22 * CAPACITY, "most of its room is left"
    figures, fpp = seen.statistics(), real_fpp(seen)
    assert fpp > 3 * figures["fpp_bound"], "the attack works"
    assert figures["fpp_estimated"] == pytest.approx(fpp, rel=0.4), "and is measured, wherever it hits"
    assert figures["count_suspect"]
    assert figures["count_estimated"] < 0.6 * len(seen)


@pytest.mark.parametrize("algorithm", ["blake2b", "mmh3"])
def test_they_are_keys_like_any_others_where_there_is_a_secret(chosen: list[bytes], algorithm: str) -> None:
    seen = in_one_layout(KeyHash.new(algorithm))
    seen.update(chosen)
    figures = seen.statistics()
    assert real_fpp(seen) < figures["fpp_bound"] / 10
    assert not figures["count_suspect"]
    assert figures["count_estimated"] == pytest.approx(len(seen), rel=0.01)


@pytest.mark.parametrize("name", MAKERS)
def test_chance_alone_is_never_suspect(name: str) -> None:
    for trial in range(5):
        pick = random.Random(trial)
        seen = MAKERS[name]()
        for _ in range(40):
            seen.update(str(pick.random()) for _ in range(25))
            assert not seen.statistics()["count_suspect"], (trial, len(seen), seen.statistics())


@pytest.mark.parametrize("name", ["scalable", "scalable classic", "bloom", "bitmap", "counting"])
def test_bits_that_no_key_set_are_suspect(name: str) -> None:
    """As in a memory that was damaged, or with keys that share no bits: more seems to be in than was added."""
    seen = MAKERS[name]()
    seen.update(str(number) for number in range(40))
    assert not seen.statistics()["count_suspect"]
    snapshot = seen.snapshot()
    words = np.frombuffer(snapshot.segments[0].buffer, np.uint64)
    words[: len(words) // 3] = np.uint64(2**64 - 1)
    again = type(seen).from_snapshot(snapshot.state, {part.name: part.buffer for part in snapshot.segments})
    assert again.statistics()["count_suspect"]
