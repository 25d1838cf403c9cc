"""Seen-sets of every kind, small enough to grow and to fill up in a test."""

from __future__ import annotations

from collections.abc import Callable

from crawler.seen.exact.seen import ExactSeenSet
from crawler.seen.exact.seen import load_seen as load_exact
from crawler.seen.filters import (
    DIGEST_BYTES,
    Bitmap,
    BloomFilter,
    CountingFilter,
    CuckooFilter,
    DigestTable,
    Filter,
    ScalableBloomFilter,
    SeenSet,
    SeenSnapshot,
)
from crawler.seen.slices.compiled import reference
from tests.hashing import HASH
from tests.memory_store import MemoryStore

Maker = Callable[[], Filter]

MAKERS: dict[str, Maker] = {
    "scalable": lambda: ScalableBloomFilter(0.01, 60, hash=HASH),
    "scalable blocked": lambda: ScalableBloomFilter(0.01, 60, layout="blocked", hash=HASH),
    "scalable classic": lambda: ScalableBloomFilter(0.01, 60, layout="classic", hash=HASH),
    "bloom": lambda: BloomFilter(300, 0.01, hash=HASH),
    "bloom classic": lambda: BloomFilter(300, 0.01, layout="classic", hash=HASH),
    "bloom by bits": lambda: BloomFilter.with_bits_per_key(300, 10, hash=HASH),
    "bitmap": lambda: Bitmap(300, 0.01, hash=HASH),
    "counting": lambda: CountingFilter(0.01, 60, hash=HASH),
    "counting 2": lambda: CountingFilter(0.01, 60, counter_bits=2, hash=HASH),
    "counting 8 fixed": lambda: CountingFilter(0.01, 300, growth=None, counter_bits=8, hash=HASH),
    "cuckoo": lambda: CuckooFilter(0.01, 60, hash=HASH),
    "cuckoo 8": lambda: CuckooFilter(0.1, 60, hash=HASH),
    "cuckoo 32": lambda: CuckooFilter(1e-6, 60, hash=HASH),
    "digest": lambda: DigestTable(60, hash=HASH),
    "digest 64": lambda: DigestTable(60, digest_bits=64, hash=HASH),
}


def _by_reference(make: Maker) -> Maker:
    def made() -> Filter:
        with reference():
            return make()

    return made


# What is compiled has a reference in Python: the suite runs both.
MAKERS |= {
    f"{name} in Python": _by_reference(MAKERS[name])
    for name in ("scalable", "scalable blocked", "scalable classic", "bloom", "bitmap")
}
FORGETTING = [name for name in MAKERS if name.startswith(("counting", "cuckoo"))]

KINDS_AND_EXACT = [*MAKERS, "exact"]


def urls(start: int, stop: int) -> list[str]:
    return [f"https://www.example.org/{number % 97}/page?id={number}" for number in range(start, stop)]


def told(seen: SeenSet) -> dict[str, object]:
    """All figures but what is measured: false positives are in no journal."""
    return {**seen.statistics(), "fpp_measured": None}


class Subject:
    """A seen-set of any kind beside the journal of what it found new, and the store that an exact one lies in."""

    def __init__(self, name: str, store: MemoryStore | None = None, seen: SeenSet | None = None) -> None:
        self.name = name
        self.store = store or MemoryStore()
        self.seen = self.empty() if seen is None else seen
        self.journal = b""

    def empty(self) -> SeenSet:
        if self.name == "exact":
            return ExactSeenSet(self.store, ScalableBloomFilter(0.01, 60, hash=HASH))
        return MAKERS[self.name]()

    def add(self, keys: list[str]) -> list[int]:
        """``admit``, with a batch of its own, and journalled."""
        batch = self.store.batch()
        digests, new = self.seen.admit(keys, batch)
        self.store.write(batch)
        self.journal += b"".join(digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] for at in new)
        return new

    def replayed(self, step: int) -> SeenSet:
        """One rebuilt from the journal, ``step`` keys at a time."""
        again = self.empty()
        for start in range(0, len(self.journal), step * DIGEST_BYTES):
            again.restore(self.journal[start : start + step * DIGEST_BYTES])
        return again

    def loaded(self, shot: SeenSnapshot, segments: dict[str, memoryview]) -> SeenSet:
        """One made of a stored snapshot."""
        return load_exact(shot.state, segments, self.store)
