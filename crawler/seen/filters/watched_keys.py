"""Measures the false-positive rate during a crawl.

A seen-set with false positives cannot be checked against itself. So a small share of all keys is *watched*: the
filter keeps an exact set of them. When a watched key is met for the first time, the exact set shows that it is new. If
the filter then reports the key as known, that is a false positive.

The digest alone decides whether a key is watched, so a key is watched either always or never. At level L the watched
keys are those whose first L *marked* bits are all zero, a share of 2**-L. The marked bits are the sixteen bits of the
digest's second half that no slice uses for positions (the upper four of each lane), so that watched keys are treated
like all others. When the exact set is full, L is incremented and half of the watched keys are dropped. With at most
2**16 watched keys, the sixteen levels last for 4 * 10**9 keys; later keys are not watched.

The measured rate is false positives / watched keys. It is the mean over all keys looked up so far, so it lags
behind the current rate; compare it with ``expected_urls_skipped / (count + expected_urls_skipped)``.
Its interval is Wilson's (1927), which stays within 0 and 1 even with few false positives or none. With three or more
expected, it covers 93% to 98%, approaching 95% as their number grows; with less than one it may cover only 84%:

    centre = (w + z**2 / 2) / (n + z**2)
    half   = z / (n + z**2) * sqrt(w (n - w) / n + z**2 / 4)          z = 1.96

A new key is in the journal, and ``restore`` adds it again; a skipped key is not. So after a crash, the false positives
found since the last snapshot are missing from the measurement until their keys are met again.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from crawler.seen.filters.protocol import MeasuredFpp
from crawler.seen.slices.errors import FilterError

Words = npt.NDArray[np.uint64]

DEFAULT_LIMIT = 2**16  # watched keys; about 7 MB
_MARKED = [bit for lane in (48, 32, 16, 0) for bit in range(lane + 15, lane + 11, -1)]
_LEVEL_MASKS = [sum(1 << bit for bit in _MARKED[:level]) for level in range(len(_MARKED) + 1)]
_Z = 1.959963984540054  # the 97.5% quantile of the normal distribution


def wilson(wrong: float, sample: float) -> tuple[float, float]:
    """Return the 95% interval of a rate, given ``wrong`` cases in a ``sample`` of at least 1. With weighted samples
    these need not be integers."""
    spread = sample + _Z**2
    centre = (wrong + _Z**2 / 2) / spread
    half = _Z / spread * math.sqrt(wrong * (sample - wrong) / sample + _Z**2 / 4)
    return (0.0 if wrong == 0 else centre - half), (1.0 if wrong == sample else centre + half)


class WatchedKeys:
    """The exact set of watched keys, by the first halves of their digests, and the false positives among them.

    The compiled kernel of a filter reads ``known`` and ``mask`` itself, and calls ``watch_unknown`` for the few keys
    that remain after that. So ``known`` is always the same dict object."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        """``limit`` is the maximum number of watched keys; 0 for a filter that has keys which were never watched."""
        self._limit = limit
        self.known: dict[int, int] = {}  # first half -> second half
        self._wrong: set[int] = set()
        self._set_level(0)

    def watch(self, halves: Words, new: npt.NDArray[np.intp] | None = None) -> None:
        """Record a batch: ``halves`` of shape (n, 2); the filter reported the keys at the positions ``new`` as new.

        None means all of them.
        """
        marked = halves[:, 1] & self._wide_mask
        if np.count_nonzero(marked) == len(marked):
            return
        watched = (marked == 0).nonzero()[0]
        found_new = None if new is None else set(new.tolist())
        for position, (h1, h2) in zip(watched.tolist(), halves[watched].tolist(), strict=True):
            self.watch_unknown(h1, h2, found_new is None or position in found_new)

    def watch_unknown(self, h1: int, h2: int, new: bool) -> None:
        """Record a key, unless it is not watched or already recorded."""
        if h2 & self.mask or h1 in self.known:
            return
        if len(self.known) >= self._limit:
            self._let_half_go()
            if h2 & self.mask or len(self.known) >= self._limit:
                return
        self.known[h1] = h2
        if not new:
            self._wrong.add(h1)

    def _set_level(self, level: int) -> None:
        self._level = level
        self.mask = _LEVEL_MASKS[level]
        self._wide_mask = np.array(self.mask, np.uint64)

    def _let_half_go(self) -> None:
        while len(self.known) >= self._limit and self._level + 1 < len(_LEVEL_MASKS):
            self._set_level(self._level + 1)
            self._keep_marked(dict(self.known))
        self._wrong &= self.known.keys()

    def _keep_marked(self, known: dict[int, int]) -> None:
        self.known.clear()
        self.known.update((h1, h2) for h1, h2 in known.items() if not h2 & self.mask)

    def unite(self, other: WatchedKeys) -> None:
        """Watch the keys of ``other`` too; otherwise they would seem new when met again."""
        self._set_level(max(self._level, other._level))
        self._keep_marked({**self.known, **other.known})
        self._wrong = (self._wrong | other._wrong) & self.known.keys()
        self._limit = min(self._limit, other._limit)
        if len(self.known) > self._limit:
            self._let_half_go()
        if not self._limit:
            self.known.clear()
            self._wrong.clear()

    def measured(self) -> MeasuredFpp | None:
        """Return the rate and its interval, or None before the first key."""
        sample, wrong = len(self.known), len(self._wrong)
        if not sample:
            return None
        low, high = wilson(wrong, sample)
        return {"value": wrong / sample, "low": low, "high": high, "sample": sample}

    @property
    def size(self) -> int:
        """The number of bytes of ``dump``."""
        return 8 * (3 + 2 * len(self.known) + len(self._wrong))

    def dump(self) -> memoryview:
        """Serialise the set as words: limit, level, count; the first halves, the second halves, the false positives."""
        head = np.array([self._limit, self._level, len(self.known)], np.uint64)
        known = np.fromiter(self.known, np.uint64, len(self.known))
        partners = np.fromiter(self.known.values(), np.uint64, len(self.known))
        wrong = np.fromiter(sorted(self._wrong), np.uint64, len(self._wrong))
        return np.concatenate((head, known, partners, wrong)).data.cast("B")

    @classmethod
    def load(cls, buffer: memoryview) -> WatchedKeys:
        """Load the output of ``dump``. Raises ``FilterError`` for invalid bytes."""
        if buffer.nbytes % 8 or buffer.nbytes < 24:
            raise FilterError(f"the watched keys of the stored seen-set are damaged: they have {buffer.nbytes} bytes")
        limit, level, count, *words = np.frombuffer(buffer, "<u8").tolist()
        if level >= len(_LEVEL_MASKS) or 2 * count > len(words) or count > limit:
            raise FilterError(
                f"the watched keys of the stored seen-set are damaged: {count} of at most {limit} keys, level {level}"
            )
        loaded = cls(limit)
        loaded._set_level(level)
        loaded.known.update(zip(words[:count], words[count : 2 * count], strict=True))
        loaded._wrong = set(words[2 * count :])
        return loaded
