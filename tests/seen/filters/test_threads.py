"""Several threads use one filter at once: no key is lost, none is counted twice, nothing waits for ever."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawler.seen.filters import (
    Bitmap,
    BloomFilter,
    CountingFilter,
    CuckooFilter,
    DigestTable,
    Filter,
    ForgettingFilter,
    ScalableBloomFilter,
    load,
)
from tests.hashing import HASH

MAKERS: dict[str, Callable[[], Filter]] = {
    "scalable": lambda: ScalableBloomFilter(0.001, 2_000, hash=HASH),
    "scalable classic": lambda: ScalableBloomFilter(0.001, 2_000, layout="classic", hash=HASH),
    "bloom": lambda: BloomFilter(50_000, hash=HASH),
    "bitmap": lambda: Bitmap(50_000, hash=HASH),
    "counting": lambda: CountingFilter(0.001, 20_000, hash=HASH),
    "cuckoo": lambda: CuckooFilter(0.001, 5_000, hash=HASH),
    "digest": lambda: DigestTable(5_000, hash=HASH),
}
THREADS = 4
KEYS = 4_000  # of each thread


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def keys_of(thread: int) -> list[str]:
    return [f"https://example.org/{thread}/{number}" for number in range(KEYS)]


def at_once(*works: Callable[[], object]) -> None:
    """Do all of ``works``, each in a thread. Raises what any of them raised."""
    start = threading.Barrier(len(works))

    def do(work: Callable[[], object]) -> None:
        start.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(do, work) for work in works]:
            done.result()


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("batch", [1, 200])
def test_no_key_that_any_thread_added_is_lost(name: str, batch: int) -> None:
    seen = MAKERS[name]()
    new = [0] * THREADS

    def adding(thread: int) -> Callable[[], None]:
        keys = keys_of(thread)[: KEYS // 4 if batch == 1 else KEYS]

        def add() -> None:
            for start in range(0, len(keys), batch):
                if batch == 1:
                    new[thread] += seen.add(keys[start])
                else:
                    new[thread] += len(seen.add_many(keys[start : start + batch]))
                assert keys[start] in seen
            assert all(seen.contains_many(keys))

        return add

    at_once(*(adding(thread) for thread in range(THREADS)))
    assert len(seen) == sum(new) == seen.statistics()["count"]
    for thread in range(THREADS):
        assert all(seen.contains_many(keys_of(thread)[: KEYS // 4 if batch == 1 else KEYS]))


@pytest.mark.parametrize("name", ["counting", "cuckoo"])
def test_a_key_is_forgotten_once_while_others_come_in(name: str) -> None:
    seen = MAKERS[name]()
    assert isinstance(seen, ForgettingFilter)
    old = [key for key in keys_of(0) if seen.add(key)]
    digests = seen.digests(old)
    left: list[int] = []

    def forgetting(part: int) -> Callable[[], None]:
        def forget() -> None:
            for at in range(part * 16, len(digests), 32):
                left.extend(at for _ in seen.forget_digests(digests[at : at + 16]))

        return forget

    fresh: list[int] = []
    more = keys_of(1)
    at_once(forgetting(0), forgetting(1), lambda: fresh.extend(seen.add_many(more)))
    assert len(seen) == len(left) + len(fresh)
    assert all(seen.contains_many([more[at] for at in fresh]))


def test_what_is_saved_united_and_counted_meanwhile_is_a_moment_of_the_filter(tmp_path: Path) -> None:
    left, right = MAKERS["scalable"](), MAKERS["scalable"]()
    right.update(keys_of(2))

    def add() -> None:
        for start in range(0, KEYS, 50):
            left.add_many(keys_of(0)[start : start + 50])

    def look() -> None:
        for number in range(20):
            left.save(tmp_path / "seen.filter")
            again = load(tmp_path / "seen.filter")
            assert again.statistics()["count"] == len(again) == sum(again.contains_many(keys_of(0)[: len(again)]))
            assert len(left.copy()) <= len(left)
            assert number >= 0

    at_once(add, look, lambda: [left | right for _ in range(10)], lambda: [right | left for _ in range(10)])
    assert all(left.contains_many(keys_of(0)))
