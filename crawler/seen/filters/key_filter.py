"""Filters for Python programs: sets of ``str`` and ``bytes`` that only grow.

    seen = ScalableBloomFilter(fpp=0.001)
    seen.add("https://example.org/")            True: it is new
    "https://example.org/" in seen              True
    seen.update(line.rstrip() for line in file)
    both = seen | other                         same parameters, with hash=seen.hash: the keys of both
    seen.save("seen.filter")
    again = load("seen.filter")

``Chain`` does the work on digests. This module adds keys, operators, and the methods of ``SeenSet`` for a crawl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from crawler.base.kv import Batch
from crawler.seen.filters.chain import Chain
from crawler.seen.filters.filter_file import FilePath, read_file, replace_file, write_parts
from crawler.seen.filters.protocol import Claim, Lookup, NotForgotten, SeenSet, TimesAdmitted
from crawler.seen.filters.segment_format import Output
from crawler.seen.filters.slice_entry import SliceEntry
from crawler.seen.slices.contract import Forgetful
from crawler.seen.slices.digests import DIGEST_BYTES, Key, digest_words
from crawler.seen.slices.errors import JSON, AbsentKeyError, CannotForgetError, FilterError
from crawler.seen.slices.fpp_model import compound


class Filter(Chain, SeenSet):
    """A seen-set in memory: every kind but ``exact``."""

    certain = False

    @property
    def cannot_forget(self) -> str | None:
        """Why keys cannot be removed, or None if they can."""
        return "its bits are shared by many keys"

    # -- keys

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """Add ``keys``. Returns the positions of the new ones, ascending; a repeated key is new the first time."""
        kernel = self._kernel
        if kernel is not None and (new := kernel.add_keys(self, keys)) is not None:
            return new
        return self.add_digests(self.hash.digest_keys(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """Return, for each key, True if it was added before or is a false positive."""
        return self.contains_digests(self.hash.digest_keys(keys))

    def lookup(self, key: Key) -> Lookup:
        """Look up the key. Returns the answer, its reliability, and the slices that hold the key."""
        h1, h2 = self.hash.digest_one(key)
        with self._lock:
            figures = [entry.statistics() for entry in self._chain]
            claims = [Claim(n + 1, figures[n]["count"], figures[n]["fpp_estimated"]) for n in self._claims(h1, h2)]
        fpp = compound(part["fpp_estimated"] for part in figures)
        return Lookup(bool(claims), self.certain, fpp, len(figures), tuple(claims))

    # -- operators

    def __or__(self, other: Filter) -> Self:
        if not isinstance(other, Filter):
            return NotImplemented
        made = self.copy()
        made |= other
        return made

    def __ior__(self, other: Filter) -> Self:
        """Add the keys of ``other``, which does not change. Raises the errors of ``unite``."""
        if not isinstance(other, Filter):
            return NotImplemented
        if other is not self:
            self._add_all(other, (entry.copy() for entry in other._chain))
        return self

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, _: Any) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} kind={self.kind} count={len(self)} fpp={self.fpp:g}>"

    # -- files

    def write_to(self, out: Output, header: Mapping[str, JSON] | None = None) -> None:
        """Write the filter at ``out``'s position. Calls from other threads wait until it is written."""
        with self._lock:
            write_parts(out, self._snapshot(), header or {})

    def save(self, path: FilePath) -> None:
        """Write the filter to a file, which is replaced atomically. Raises ``OSError``."""
        replace_file(path, self.write_to)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Load the filter in the file at ``path``, which must be of this kind; ``crawler.seen.filters.load`` takes any.

        Raises ``FormatError``, ``FilterError``, ``OSError``."""
        found = read_file(path)
        return cls.from_snapshot(found.state, found.segments)

    # -- the interface for a crawl

    def admit(self, keys: Iterable[Key], batch: Batch) -> tuple[bytes, list[int]]:
        """Add ``keys``. Only the journal stores their digests, so ``batch`` does not change. Returns their digests and
        the positions of the new ones."""
        digests = self.hash.digest_keys(keys)
        return digests, self.add_digests(digests)

    def might_contain_digests(self, digests: bytes) -> list[bool]:
        """Return, for each digest, True if its key may be present."""
        return self.contains_digests(digests)

    def forget_keys(self, keys: Iterable[Key], batch: Batch, admitted: TimesAdmitted) -> dict[int, NotForgotten]:
        """See ``SeenSet``. Raises ``CannotForgetError`` for most kinds."""
        raise CannotForgetError(
            f"a seen-set of kind {self.kind} cannot forget: {self.cannot_forget}; counting, cuckoo and exact can"
        )

    def restore_forgotten(self, digests: bytes) -> None:
        """Remove keys that ``forget_keys`` removed before the restart."""


class ForgettingFilter(Filter):
    """A filter that can remove keys from its slices."""

    growth: float | None  # None if there is only one slice

    @property
    def cannot_forget(self) -> str | None:
        return None

    def forget(self, key: Key) -> None:
        """Remove ``key``. Raises ``AbsentKeyError`` if it is not present, ``FilterError`` if two slices claim it."""
        h1, h2 = self.hash.digest_one(key)
        with self._lock:
            if self._forget_one(h1, h2):
                return
            if not self._claims(h1, h2):
                raise AbsentKeyError(f"not in the {self.kind} filter: {key!r}")
        raise FilterError(f"cannot forget {key!r}: more than one slice of the {self.kind} filter claims it")

    def forget_digests(self, digests: bytes) -> list[int]:
        """Remove keys. Returns the positions of those that stay, because no slice claims them, or two slices do.

        If two slices claim a key, one of them is wrong, and it is unknown which. Removing the key from the wrong slice
        would make the filter deny other keys. For the same reason only keys that were new when added may be forgotten:
        a false positive shares its bits with other keys.
        """
        pairs = digest_words(digests).tolist()
        with self._lock:
            return [position for position, (h1, h2) in enumerate(pairs) if not self._forget_one(h1, h2)]

    def _forget_one(self, h1: int, h2: int) -> bool:
        claims = self._claims(h1, h2)
        if len(claims) != 1:
            return False
        entry = self._chain[claims[0]]
        before = entry.filter
        forgotten = entry.forget_one(h1, h2)
        if entry.filter is not before:
            self._restack()
        return forgotten

    def forget_keys(self, keys: Iterable[Key], batch: Batch, admitted: TimesAdmitted) -> dict[int, NotForgotten]:
        """See ``SeenSet``. A key that was never admitted may be a false positive, and removing it would remove other
        keys. So the keys are first looked up with ``admitted`` in the journal, which has no false positives."""
        digests = self.hash.digest_keys(keys)
        times = dict(admitted(digests))
        left: dict[int, NotForgotten] = {}
        for position, known in enumerate(self.contains_digests(digests)):
            digest = digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES]
            if times.get(digest, 0) < 1:
                left[position] = NotForgotten.TAKEN_FOR_ANOTHER if known else NotForgotten.NOT_SEEN
            elif self.forget_digests(digest):
                left[position] = NotForgotten.CLAIMED_TWICE
            else:
                times[digest] -= 1
        return left

    def restore_forgotten(self, digests: bytes) -> None:
        self.forget_digests(digests)

    def _unite(self, other: Chain, taken: Iterator[SliceEntry]) -> None:
        ours, theirs = self._chain[0], other._chain[0]
        mine, its = ours.filter, theirs.filter
        if self.growth is not None or not isinstance(mine, Forgetful) or not isinstance(its, Forgetful):
            super()._unite(other, taken)
            return
        self._need(theirs.count)
        self._settle_skipped(other, [])
        mine.unite(its)
        ours.take_counts(theirs)
