"""One or more slices that form a seen-set over digests: batches, growth, statistics and snapshots.

The newest slice accepts the new keys; a key is known if any slice holds it. A subclass decides how each slice is made,
and whether another one may follow. ``key_filter`` adds the methods that take keys.

Batches. ``add_digests`` gives the same answers as if each key were looked up in turn, with one difference: the keys of
a chunk (4,096 at most) are all compared with the state before the chunk, and with one another exactly, by their
digests. So a key never becomes a false positive through bits set by its own chunk. A chunk may span the end of a slice:
its new keys fill the slice to its capacity, in order, and the others go to the next one. So the slice of a key depends
only on the order of the new keys, not on the batches. That is why ``restore`` can rebuild the same chain from the
journal.

Compiled code. For Bloom layouts, the compiled kernel (``crawler.seen.slices.compiled``), if it was built, looks
up and adds whole chunks in the memory of the slices. Counts, growth and everything below remain here, together with the
reference for the kernel.

Snapshots. A slice that only gains bits may be stored while keys are added: if the stored slice has bits of later keys,
the journal sets the same bits again. A slice that can lose keys (``Forgetful``) moves tags or counts, so the
open one is copied as of that moment (``cow_snapshot``). If a sealed one must lose a key, a changed copy with a new
segment name replaces it, and the stored one remains unchanged.

Union. Two chains with equal parameters are united by concatenating their slices: a key is known if either chain knew
it, and each of them may misjudge an absent key, so their bounds add up. Kinds with a single slice unite the slices
themselves instead (the OR of their bits, the sums of their counters, or the tags of both).

Threads. Every public method takes the filter's lock, so several threads may add, look up and forget concurrently. The
exceptions are a snapshot that is not whole, which belongs to the thread that completes it, and ``SuccessorSlice``.

Invariants: the memory of a sealed slice is never written again; a new slice is opened only when a key arrives for which
the last one has no room; without ``forget`` and ``unite``, every slice but the last is full, or was crowded by chosen
keys and sealed early, which is always safe.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from math import inf
from threading import Lock
from typing import Any, Self

import numpy as np

from crawler.seen.filters.protocol import Part, SeenSnapshot, SeenStatistics, Segment
from crawler.seen.filters.slice_entry import SliceEntry, segment
from crawler.seen.filters.watched_keys import WatchedKeys
from crawler.seen.slices.compiled import CHUNK, seen_kernel
from crawler.seen.slices.contract import Slice
from crawler.seen.slices.digest_batch import Batch, Indices, Words
from crawler.seen.slices.digests import count_digests, digest_words
from crawler.seen.slices.errors import JSON, FilterError, FullError, HashMismatchError
from crawler.seen.slices.fpp_model import compound
from crawler.seen.slices.key_hash import SEED_ZERO, KeyHash
from crawler.seen.slices.layouts import stated_for_kernel

_HASHES_DIFFER = (
    "filters can only be united if they hash keys with the same secret: create one with the secret of the other "
    "(--secret-of FILE; in Python, hash=other.hash)"
)
_CHUNK = CHUNK  # keys that are compared with one state of the chain; limits the memory of a batch
_WARY = 256  # keys added at a time to a slice that an attacker may fill with chosen keys
_WATCHED = "watched"


class Chain(ABC):
    """The base class of all kinds of seen-set made of slices."""

    kind: str
    fpp: float
    _compacts = False  # True if one slice may replace the whole chain
    _overfills = False  # True if the slice accepts more keys than its capacity
    _shaped_by: tuple[str, ...]  # names of the attributes that shape the stored state

    def __init__(self, hash: KeyHash | None) -> None:
        """If ``hash`` is None, create a hash with a secret of its own."""
        self.hash = hash or KeyHash.new()
        self._sampling = self.hash.sampling()
        self._watch_with(WatchedKeys())
        self._compactions = 0
        self._skipped_before = 0.0  # expected number of keys skipped by the chains that this one replaced
        self._merged = 0  # slices from other chains, which precede its own
        self._merged_bound = 0.0  # upper bound of their compound fpp
        self._chain: list[SliceEntry] = []
        self._grow()

    def _watch_with(self, watched: WatchedKeys) -> None:
        self._watched = watched
        # Other methods use the kernel as their lock; the kernel's own methods acquire it themselves.
        self._kernel = seen_kernel(self.hash.algorithm, self.hash.secret, watched)
        self._lock = self._kernel or Lock()

    @abstractmethod
    def _make(self, number: int) -> tuple[Slice, int, float]:
        """Return slice ``number`` of the chain, its capacity in keys and its fpp when full."""

    def _room(self) -> int | None:
        """Return how many keys may still be added; None if there is no limit, because another slice can always follow
        or a full one takes more."""
        return None

    def parameters(self) -> dict[str, JSON]:
        """Return the parameters that shape the stored state."""
        return {name: getattr(self, name) for name in ("kind", *self._shaped_by)}

    # -- adding and looking up

    def add_digests(self, digests: bytes) -> list[int]:
        """Add the keys of these digests, 16 bytes each. Returns the positions of the new ones, ascending."""
        with self._lock:
            count = count_digests(digests)
            new: list[int] = []
            for start in range(0, count, _CHUNK):
                if self._kernel is not None:
                    new += self._kernel.add_digests(self, digests, start)
                else:
                    new += self._add_chunk(digest_words(digests)[start : start + _CHUNK], start)
            return new

    def _add_chunk(self, halves: Words, start: int) -> list[int]:
        batch = Batch(halves)
        unseen = self._unseen(batch)
        if not len(unseen):
            self._watched.watch(batch.halves, unseen)
            return []
        fresh = _first_occurrences(batch, unseen)
        self._need(len(fresh))
        self._watched.watch(batch.halves, fresh)
        self._put(batch.at(fresh))
        found: list[int] = (fresh + start if start else fresh).tolist()
        return found

    def added(self, put: int, rest: bytes) -> None:
        """Handle a report of the compiled kernel: the kernel has put ``put`` new keys into the newest slice, which has
        no room for the other new keys. ``rest`` are the digests of these. Only the kernel calls this, with the lock
        held."""
        self._count(put)
        if rest:
            self._put(Batch(digest_words(rest)))

    def contains_digests(self, digests: bytes) -> list[bool]:
        """Return, for each of these 16-byte digests, True if its key is present or a false positive."""
        with self._lock:
            count = count_digests(digests)
            known: list[bool] = []
            if self._kernel is not None:
                for start in range(0, count, _CHUNK):
                    known += self._kernel.holds_digests(digests, start)
                return known
            halves = digest_words(digests)
            for start in range(0, len(halves), _CHUNK):
                batch = Batch(halves[start : start + _CHUNK])
                found = np.ones(len(batch), np.bool_)
                found[self._unseen(batch)] = False
                known += found.tolist()
            return known

    def restore(self, digests: bytes) -> None:
        """Add keys that were new when the journal recorded them, see ``SeenSet``."""
        halves = digest_words(digests)
        with self._lock:
            for start in range(0, len(halves), _CHUNK):
                batch = Batch(halves[start : start + _CHUNK])
                self._need(len(batch))
                self._watched.watch(batch.halves)
                self._put(batch)

    def __len__(self) -> int:
        return sum(entry.count for entry in self._chain)

    def _space(self) -> int:
        """Return how many more keys the newest slice takes."""
        if self._overfills:
            return sys.maxsize
        entry = self._chain[-1]
        return max(0, entry.capacity - entry.count)

    def _count(self, put: int) -> None:
        entry = self._chain[-1]
        entry.count += put
        entry.admitted += put

    def _unseen(self, batch: Batch) -> Indices:
        """Return the positions, ascending, of the keys that no slice holds."""
        left = np.arange(len(batch))
        for entry in reversed(self._chain):  # the newest holds half of all keys
            left = left[~entry.filter.holds(batch.at(left))]
        return left

    def _put(self, batch: Batch) -> None:
        """Add keys known to be new, in order, opening further slices as needed."""
        start, size = 0, len(batch)
        while start < size:
            entry = self._open()
            part = size - start
            if not self._overfills:
                part = min(part, entry.capacity - entry.count)
            if entry.filter.crowdable and self.hash.forgeable:
                part = min(part, _WARY)
            if self._kernel is not None:
                self._kernel.put_digests(batch.halves[start : start + part])
            else:
                entry.filter.put(batch if part == size else batch.at(np.arange(start, start + part)))
            self._count(part)
            start += part

    def _claims(self, h1: int, h2: int) -> list[int]:
        """Return the numbers of the slices that report the key as present, counted from the oldest, 0."""
        batch = Batch.of_one(h1, h2)
        return [number for number, entry in enumerate(self._chain) if entry.filter.holds(batch)[0]]

    # -- growing

    def _need(self, keys: int) -> None:
        room = self._room()
        if room is not None and keys > room:
            raise FullError(
                f"the {self.kind} filter is full: it holds {len(self)} keys and has room for {room} more, not {keys}"
            )

    def _full(self, entry: SliceEntry) -> bool:
        if self._overfills:
            return False
        return entry.count >= entry.capacity or (entry.filter.crowded and self._room() is None)

    def _open(self) -> SliceEntry:
        """Return the slice that takes the next key."""
        if self._full(self._chain[-1]):
            self._need(1)
            self._grow()
        return self._chain[-1]

    def _grow(self) -> None:
        try:
            part, capacity, fpp = self._make(len(self._chain) - self._merged)
        except (OverflowError, ZeroDivisionError):
            raise FilterError("the slice is larger than any machine's memory") from None
        self._chain.append(SliceEntry(part, capacity, fpp, compactions=self._compactions))
        self._restack()

    def _restack(self) -> None:
        for entry in self._chain:
            entry.filter.sampling = self._sampling
        slices = [entry.filter for entry in reversed(self._chain)]
        stated = stated_for_kernel(slices)
        if stated is None:
            self._kernel = None
        elif self._kernel is not None:
            self._kernel.take(stated, self._space())

    # -- copying and uniting

    def copy(self) -> Self:
        """Return an independent copy of the seen-set. Raises ``FilterError`` if there is not enough memory."""
        made = type(self).__new__(type(self))
        with self._lock:
            vars(made).update(vars(self))
            made._chain = [entry.copy() for entry in self._chain]
            made._watch_with(WatchedKeys.load(self._watched.dump()))
        made._restack()
        return made

    def unite(self, other: Chain) -> None:
        """Add all keys of ``other`` and take over its memory: ``other`` must not be used afterwards.

        The count is exact for ``digest``. For ``bloom`` and ``bitmap`` it is estimated from the bits; for the other
        kinds, a key that is in both counts twice. Raises ``FilterError``, which names the parameters in which the two
        differ, or ``FullError`` if there is no room.
        """
        self._add_all(other, iter(other._chain))

    def _add_all(self, other: Chain, taken: Iterator[SliceEntry]) -> None:
        if other is self:
            raise FilterError("a filter cannot be united with itself")
        first, second = sorted((self, other), key=id)
        with first._lock, second._lock:
            named = _differences(self._made_like(), other._made_like())
            if named:
                listed = ", ".join(f"{name} ({mine} and {its})" for name, (mine, its) in named.items())
                raise FilterError(f"filters can only be united if their parameters are equal; they differ in {listed}")
            if self.hash != other.hash:
                raise HashMismatchError(_HASHES_DIFFER)
            self._unite(other, taken)
            self._watched.unite(other._watched)

    def _made_like(self) -> dict[str, JSON]:
        """Return the parameters that must be equal in two seen-sets to unite them."""
        return self.parameters()

    def _unite(self, other: Chain, taken: Iterator[SliceEntry]) -> None:
        """Add the keys of ``other``. ``taken`` are the slices of ``other`` to keep; ``other`` itself is only read."""
        entries = list(taken)
        self._settle_skipped(other, entries)
        self._merged_bound = compound((self._merged_bound, other._bound()))
        self._merged += len(entries)
        self._chain = entries + self._chain
        self._restack()

    def _settle_skipped(self, other: Chain, taken: list[SliceEntry]) -> None:
        """Save the expected number of URLs that both chains have skipped so far, before the slices are combined."""
        self._skipped_before = self._expected_skipped() + other._expected_skipped()
        for entry in (*self._chain, *taken):
            entry.built = entry.admitted

    # -- statistics

    def _expected_skipped(self) -> float:
        """Return the expected number of false positives so far."""
        total, before = self._skipped_before, 0.0
        for entry in self._chain:
            skipped, fpp = entry.skipped(before)
            total += skipped
            before = compound((before, fpp))
        return total

    def _bound(self) -> float:
        """Return the bound of the compound fpp for any number of keys, or the fpp of an overfull slice if higher."""
        promised = compound((self.fpp, self._merged_bound))
        last = self._chain[-1]
        if not self._overfills or last.count <= last.capacity:
            return promised
        return max(promised, last.filter.fpp_at(last.count), last.reading().fpp)

    def statistics(self) -> SeenStatistics:
        """Return the ``seen`` statistics of ``stats --json``."""
        with self._lock:
            slices = [entry.statistics() for entry in self._chain]
            size = sum(entry.filter.words.nbytes for entry in self._chain)
            count = len(self)
            return {
                "kind": self.kind,
                "hash": self.hash.describe(),
                "slices": slices,
                "count": count,
                "count_estimated": sum(entry.reading().count_estimated for entry in self._chain),
                "count_suspect": any(entry.suspect() for entry in self._chain),
                "fpp_target": self.fpp,
                "fpp_bound": self._bound(),
                "fpp_estimated": compound(part["fpp_estimated"] for part in slices),
                "fpp_measured": self._watched.measured(),
                "expected_urls_skipped": self._expected_skipped(),
                "bytes": size,
                "bits_per_url": size * 8 / count if count else None,
                "compactions": self._compactions,
            }

    # -- storing

    def _sealed(self, number: int) -> bool:
        return number < len(self._chain) - 1 or self._full(self._chain[number])

    def snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        """Take a snapshot of the current state, see ``SeenSet``."""
        with self._lock:
            return self._snapshot(whole=whole)

    def _snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        state: dict[str, JSON] = {
            "parameters": self.parameters(),
            "hash": self.hash.as_json(),
            "slices": [entry.state(number) for number, entry in enumerate(self._chain)],
            "compactions": self._compactions,
            "skipped_before": self._skipped_before,
            "guests": self._merged,
            "guests_bound": self._merged_bound,
        }
        shot = SeenSnapshot(state, [])
        for number, entry in enumerate(self._chain):
            sealed = self._sealed(number)
            words, copying = entry.stored_words(sealed)
            shot.segments.append(Segment(entry.name(number), sealed, entry.header(), words))
            if copying is not None:
                shot.copies.append(copying)
        shot.segments.append(self._watched_segment())
        while whole and shot.advance():
            pass
        return shot

    def parts(self) -> list[Part]:
        """Return the segments of a snapshot, see ``SeenSet``."""
        slices = [
            Part(entry.name(number), self._sealed(number), True, entry.filter.words.nbytes)
            for number, entry in enumerate(self._chain)
        ]
        return [*slices, Part(_WATCHED, False, False, self._watched.size)]

    def unjournaled_segments(self) -> list[Segment]:
        """Return the segments that the journal cannot restore, see ``SeenSet``."""
        with self._lock:
            return [self._watched_segment()]

    def _watched_segment(self) -> Segment:
        # Skipped watched keys are not in the journal. The other watched keys are already in the stored set when the
        # journal adds them again, which changes nothing.
        return Segment(_WATCHED, False, {"holds": "watched keys"}, self._watched.dump())

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> Self:
        """Load the seen-set with this ``state`` and the stored buffers ``segments`` by name.

        Writable, aligned buffers (as ``read_segment`` returns them) are adopted, not copied. Raises
        ``FilterError`` if the parts do not fit together.
        """
        try:
            made = dict(state["parameters"])
            if made.pop("kind") != cls.kind:
                raise FilterError(f"the stored seen-set is of kind {state['parameters']['kind']}, not {cls.kind}")
            _check_figures(state)
            if state.get("compactions", 0) and not cls._compacts:
                raise FilterError(f"a seen-set of kind {cls.kind} cannot be compacted")
            chain = cls(**made, hash=hash_of(state))
            chain._chain = [SliceEntry.stored(part, segments) for part in state["slices"]]
            if not chain._chain:
                raise FilterError("the stored seen-set has no slice")
            chain._compactions = state.get("compactions", 0)
            chain._skipped_before = state.get("skipped_before", 0.0)
            chain._merged = state.get("guests", 0)
            chain._merged_bound = state.get("guests_bound", 0.0)
            chain._watch_with(WatchedKeys.load(segment(segments, _WATCHED)))
            chain._restack()
        except FilterError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
            raise damaged(problem) from problem
        return chain


def hash_of(state: Mapping[str, Any]) -> KeyHash:
    """Return the hash of a stored seen-set. Raises ``FilterError``."""
    # Earlier versions had only this hash, and did not store its name.
    return KeyHash.from_json(state["hash"]) if "hash" in state else SEED_ZERO


def damaged(problem: Exception) -> FilterError:
    """Return the error for invalid stored state."""
    return FilterError(f"the state of the stored seen-set is damaged: {problem!r}")


def _check_figures(state: Mapping[str, Any]) -> None:
    """Check stored numbers, which would otherwise only fail in use. Raises ``FilterError``."""
    compactions, merged = state.get("compactions", 0), state.get("guests", 0)
    whole = all(isinstance(number, int) for number in (compactions, merged))
    if not whole or compactions < 0 or not 0 <= merged < max(1, len(state.get("slices", ()))):
        raise FilterError(
            f"the state of the seen-set is invalid: {compactions} compactions, {merged} slices from other sets"
        )
    skipped, bound = state.get("skipped_before", 0.0), state.get("guests_bound", 0.0)
    if not 0 <= skipped < inf or not 0 <= bound <= 1:
        raise FilterError(
            f"the state of the seen-set is invalid: {skipped} skipped URLs, fpp {bound} for slices from other sets"
        )


def _differences(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [*mine, *(name for name in other if name not in mine)]
    return {name: (mine.get(name), other.get(name)) for name in names if mine.get(name) != other.get(name)}


def _first_occurrences(batch: Batch, positions: Indices) -> Indices:
    """Return ``positions`` without those whose digest also occurs at an earlier position."""
    if len(np.unique(batch.halves[:, 0].take(positions))) == len(positions):
        return positions
    firsts: dict[bytes, int] = {}
    for position in positions.tolist():
        firsts.setdefault(batch.halves[position].tobytes(), position)
    return np.fromiter(firsts.values(), np.intp, len(firsts))
