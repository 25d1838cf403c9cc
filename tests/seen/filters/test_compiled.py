"""The compiled kernel and its reference in Python: the same bits, the same answers, and what is refused."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.seen.filters import Bitmap, BloomFilter, Filter, KeyHash, ScalableBloomFilter
from crawler.seen.filters.watched_keys import WatchedKeys
from crawler.seen.slices import compiled
from crawler.seen.slices.key_hash import Blake2b, Murmur3
from tests.examples import TIMES
from tests.hashing import HASH
from tests.needs import need_native
from tests.seen.filters.kinds import urls


@pytest.fixture(autouse=True)
def _built() -> None:
    need_native()


HASHES: list[KeyHash] = [HASH, Murmur3(b"seed")]
MAKERS: dict[str, Callable[[int, float, KeyHash], Filter]] = {
    "paired": lambda capacity, fpp, hash: ScalableBloomFilter(fpp, capacity, hash=hash),
    "blocked": lambda capacity, fpp, hash: ScalableBloomFilter(fpp, capacity, layout="blocked", hash=hash),
    "classic": lambda capacity, fpp, hash: ScalableBloomFilter(fpp, capacity, layout="classic", hash=hash),
    "bloom": lambda capacity, fpp, hash: BloomFilter(capacity, fpp, hash=hash),
    "bitmap": lambda capacity, fpp, hash: Bitmap(capacity, max(fpp, 1e-3), hash=hash),
    "guava": lambda capacity, _, hash: BloomFilter(capacity, layout="guava", bits=capacity * 64, hashes=7),
}
every_layout = pytest.mark.parametrize("layout", MAKERS)

# A batch: keys as numbers. Few numbers make repetitions, within a batch and later.
batches = st.lists(
    st.one_of(
        st.lists(st.integers(0, 400), max_size=40),
        st.lists(st.integers(0, 3_000), min_size=60, max_size=90),
        st.integers(0, 2_000).map(lambda start: [*range(start, start + 700), start]),
    ),
    max_size=8,
)


def both(layout: str, capacity: int, fpp: float, hash: KeyHash) -> tuple[Filter, Filter]:
    fast = MAKERS[layout](capacity, fpp, hash)
    with compiled.reference():
        slow = MAKERS[layout](capacity, fpp, type(hash)(hash.secret))
    return fast, slow


def stored(seen: Filter) -> tuple[object, list[tuple[str, bytes]]]:
    shot = seen.snapshot()
    return shot.state, [(part.name, part.buffer.tobytes()) for part in shot.segments]


@every_layout
@pytest.mark.parametrize("hash", HASHES, ids=str)
@settings(max_examples=6 * TIMES)
@given(added=batches, capacity=st.integers(1, 900), fpp=st.sampled_from([0.3, 0.01, 1e-3, 1e-6]), whole=st.booleans())
def test_both_find_the_same_new_and_set_the_same_bits(
    layout: str, hash: KeyHash, added: list[list[int]], capacity: int, fpp: float, whole: bool
) -> None:
    fast, slow = both(layout, capacity, fpp, hash)
    for numbers in added:
        keys = [f"https://example.org/{number}" for number in numbers]
        if whole:
            found = fast.add_many(keys), slow.add_many(keys)
        else:
            found = fast.add_digests(fast.digests(keys)), slow.add_digests(slow.digests(keys))
        assert found[0] == found[1]
        asked = [f"https://example.org/{number}" for number in range(0, 3_000, 41)]
        assert fast.contains_many(asked) == slow.contains_many(asked)
        assert [key in fast for key in keys[:5]] == [key in slow for key in keys[:5]]
    assert fast.statistics() == slow.statistics()
    assert stored(fast) == stored(slow)


# Of a filter with that hash, after urls(0, 3000): the SHA-256 of all its slices. They change only with the format.
GOLDEN = {
    ("paired", "blake2b"): "1fe2d4458c4e5fd0812f1825d1fb9ac2c40438a97e8432859631a906d96d5798",
    ("paired", "mmh3"): "a9edcecda6baa1d60769cdbebdbca07c0e3c776b19185279cae2b55087b1d90f",
    ("blocked", "blake2b"): "f529aa1bb0355a207aa800c010a7c5397cf4b24bee2f7f7d967691ee47c25032",
    ("blocked", "mmh3"): "97e1242c6cffe165aa43c90fdd708894b871deb5e5fa19a263d5a3934dea983b",
    ("classic", "blake2b"): "44ef497de9f349b8b158585f8b5330609cdbac947aed32c747a2cddd4bc845c9",
    ("classic", "mmh3"): "680dd9325ccf46b72330b84cdfb27a6c5d93970496388479ec6b874730184ad2",
    ("guava", "mmh3"): "1be622072d4d3b0d9c78949eca3754d580213a209cc50db286103ca5ef860e73",
}


@pytest.mark.parametrize(("layout", "algorithm"), GOLDEN)
def test_the_bits_are_those_of_every_version(layout: str, algorithm: str) -> None:
    hash = Blake2b(bytes(range(16))) if algorithm == "blake2b" else Murmur3(bytes(4))
    for seen in both(layout, 1_000, 0.001, hash):
        seen.add_many(urls(0, 3_000))
        told = hashlib.sha256()
        for name, words in stored(seen)[1]:
            if name != "watched":
                told.update(words)
        assert told.hexdigest() == GOLDEN[layout, algorithm]


@every_layout
def test_a_key_that_is_none_changes_nothing(layout: str) -> None:
    seen = MAKERS[layout](500, 0.01, HASH)
    before = stored(seen)
    for wrong in (["a", 1], ("a", None), [*urls(0, 200), b"a", ["b"]]):
        with pytest.raises(TypeError):
            seen.add_many(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        seen.add_many("abc")
    with pytest.raises(TypeError):
        seen.add(3)  # type: ignore[arg-type]
    assert stored(seen) == before


def test_keys_that_share_half_of_a_digest_are_two() -> None:
    """Digests somebody chose: equal first halves, one hundred times, and every one twice."""
    pairs = [(7, number) for number in range(100)] * 2
    digests = b"".join(h1.to_bytes(8, "little") + h2.to_bytes(8, "little") for h1, h2 in pairs)
    fast, slow = both("paired", 1_000, 1e-6, HASH)
    found = fast.add_digests(digests)
    assert found == slow.add_digests(digests)
    assert found == list(range(100))


# -- the kernel itself


class Told:
    """The filter of a kernel: what the kernel tells it."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, bytes]] = []

    def added(self, put: int, rest: bytes) -> None:
        self.heard.append((put, rest))


def kernel_of(*slices: tuple[Any, str, int, int], room: int = sys.maxsize) -> Any:
    made = compiled.seen_kernel("mmh3", b"seed", WatchedKeys())
    assert made is not None
    if slices:
        made.take(slices, room)
    return made


def words(count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.zeros(count, np.uint64)


def test_a_read_only_slice_is_asked_and_never_written() -> None:
    memory, told = words(80), Told()
    kernel_of((memory, "paired", 10, 8)).add_keys(told, ["a", "b"])
    told.heard.clear()
    image = memory.tobytes()
    kernel = kernel_of((image, "paired", 10, 8))
    digests = Murmur3(b"seed").digest_keys(["a", "b", "c"])
    assert kernel.holds_digests(digests, 0) == [True, True, False]
    for write in (
        lambda: kernel.add_keys(told, ["c"]),
        lambda: kernel.add_keys(told, ["a"]),
        lambda: kernel.add_digests(told, digests, 0),
        lambda: kernel.put_digests(digests),
    ):
        with pytest.raises(BufferError):
            write()
    assert image == memory.tobytes()
    behind = kernel_of((words(80), "paired", 10, 8), (image, "paired", 10, 8))
    assert behind.add_keys(told, ["a", "b", "c"]) == [2]
    assert image == memory.tobytes()


@pytest.mark.parametrize(
    "stated",
    [
        (words(79), "paired", 10, 8),
        (words(80), "blocked", 9, 8),
        (words(80), "paired", 2**61, 8),
        (words(80), "paired", 10, 9),
        (words(80), "classic", 80 * 64 + 1, 7),
        (words(80), "guava", 80 * 64, 256),
        (words(80), "guava", 2**64 - 64, 7),
        (words(80), "table", 10, 8),
        (memoryview(bytearray(8 * 80 + 8))[1:-7], "paired", 10, 8),
    ],
    ids=lambda stated: f"{stated[1]} {stated[2]} {stated[3]} {len(stated[0])}",
)
def test_memory_that_does_not_fit_a_slice_is_refused(stated: tuple[Any, str, int, int]) -> None:
    kernel = kernel_of((words(80), "paired", 10, 8))
    with pytest.raises(ValueError):  # noqa: PT011
        kernel.take((stated,), 10)
    assert kernel.add_keys(Told(), ["a"]) == [0]  # it still has what it had


def test_after_an_interrupt_in_the_middle_of_a_batch_the_filter_still_takes_keys() -> None:
    class Interrupted(ScalableBloomFilter):
        def added(self, put: int, rest: bytes) -> None:
            if len(self) == 200:
                raise KeyboardInterrupt
            super().added(put, rest)

    seen = Interrupted(0.001, 300, hash=HASH)
    seen.add_many(urls(0, 200))
    with pytest.raises(KeyboardInterrupt):
        seen.add_many(urls(200, 280))
    seen.__class__ = ScalableBloomFilter
    found = seen.add_many(urls(0, 1_000))
    assert len(found) >= 710
    assert all(seen.contains_many(urls(0, 1_000)))
