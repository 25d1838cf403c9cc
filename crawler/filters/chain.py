"""One or more slices that together are a seen-set: batches, growth, figures and snapshots, whatever a slice
is.

The newest slice takes the new keys; a key is known if any slice holds it. A subclass says how each slice is
made, and whether there is a next one.

Batches. ``add_digests`` answers for a batch as if each key were asked in turn, with one difference: the keys
of a chunk (4,096 at most) are all compared with the state before it, and with one another exactly, by their
digests. So a key is never misjudged because of bits that its own chunk has set. A chunk may straddle the end
of a slice: its new keys fill the slice to its capacity, in order, and the others go to the next one. Which
key lands in which slice thus depends only on the order of the new keys, not on how they were batched: this is
what lets ``restore`` rebuild the very same chain from the journal.

Snapshots. A slice that only ever gains bits may be stored while keys come in: whatever a copy holds too much,
the journal will set again. A slice that can lose keys (``Forgetful``) moves and counts, so the open one is
copied as it is at that moment (``imprint``); a sealed one that must lose a key is replaced by a changed copy under a
new segment name, and the stored one stays true to its name.

Union. Two chains made alike become one by standing their slices side by side: a key is known if either knew it, and an
absent key gets a chance to be misjudged by both, so the bounds add up. Where slices can be united themselves, which is
how kinds with a single one do it (OR of bits, sum of counters, the tags of both), the subclass says so.

Invariants: a sealed slice's memory is never written again; the last slice is replaced only when a key arrives
that it has no room for; without ``forget`` and ``unite``, every slice but the last is full.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from crawler.filters.protocol import DigestSet, Part, SeenSnapshot, SeenStatistics, Segment
from crawler.filters.slice_entry import Link, segment
from crawler.filters.watched_keys import WatchedKeys
from crawler.slices.contract import Slice
from crawler.slices.digest_batch import Batch, Indices
from crawler.slices.digests import DIGEST_BYTES, count_digests, digest_key, digest_keys, digest_words, pairs_of
from crawler.slices.errors import JSON, AbsentKeyError, FilterError, FullError
from crawler.slices.fpp_model import compound
from crawler.slices.layouts import stack_of

_CHUNK = 4096  # keys compared with the same state; bounds what a batch takes besides the filter
_WATCHED = "watched"
_FEW_TO_SORT = 40
_NARROW = 256  # keys; from here on it pays to ask older slices only of what the newer ones do not hold


class Chain(DigestSet):
    """The part of a seen-set that is the same for all kinds made of slices."""

    kind: str
    fpp: float
    _few = 12  # keys; below, plain loops are faster than numpy's calls

    def __init__(self) -> None:
        self._watched = WatchedKeys()
        self._compactions = 0
        self._skipped_before = 0.0  # expected of the chains that stood in this one's place
        self._guests = 0  # slices, the first ones, that were united with this chain: its own follow
        self._guests_bound = 0.0  # what their compound fpp cannot exceed
        self._chain: list[Link] = []
        self._grow()

    @abstractmethod
    def _make(self, number: int) -> tuple[Slice, int, float]:
        """Slice ``number`` of the chain, its capacity in keys and its fpp when it is full."""

    @abstractmethod
    def _room(self) -> int | None:
        """How many keys may still be added; None if a slice can always follow, or a full one takes more."""

    @property
    @abstractmethod
    def _overfills(self) -> bool:
        """Does the slice take more keys than its capacity?"""

    @abstractmethod
    def parameters(self) -> dict[str, JSON]: ...

    # -- adding and asking

    def add(self, key: str) -> bool:
        return self._add_one(*digest_key(key))

    def add_many(self, keys: Sequence[str]) -> list[int]:
        if len(keys) == 1 and not isinstance(keys, str):
            return [0] if self._add_one(*digest_key(keys[0])) else []
        return self.add_digests(digest_keys(keys))

    def add_digests(self, digests: bytes) -> list[int]:
        if count_digests(digests) < self._few:
            return self._add_few(digests)
        halves = digest_words(digests)
        new: list[int] = []
        for start in range(0, len(halves), _CHUNK):
            batch = Batch(halves[start : start + _CHUNK])
            unseen = self._unseen(batch)
            if not len(unseen):
                self._watched.watch(batch.halves, unseen)
                continue
            fresh = _first_occurrences(batch, unseen)
            self._need(len(fresh))
            self._watched.watch(batch.halves, fresh)
            self._put(batch.at(fresh))
            new += (fresh + start if start else fresh).tolist()
        return new

    def contains_digests(self, digests: bytes) -> list[bool]:
        if count_digests(digests) < self._few:
            ask = self._ask_one
            return [ask(h1, h2) for h1, h2 in pairs_of(digests)]
        halves = digest_words(digests)
        known: list[bool] = []
        for start in range(0, len(halves), _CHUNK):
            batch = Batch(halves[start : start + _CHUNK])
            found = np.ones(len(batch), np.bool_)
            found[self._unseen(batch)] = False
            known += found.tolist()
        return known

    def holders(self, digest: bytes) -> list[int]:
        """The slices that say they hold the key, by number from the oldest, 0."""
        batch = Batch(digest_words(digest))
        return [number for number, link in enumerate(self._chain) if link.filter.holds(batch)[0]]

    def restore(self, digests: bytes) -> None:
        halves = digest_words(digests)
        for start in range(0, len(halves), _CHUNK):
            batch = Batch(halves[start : start + _CHUNK])
            self._need(len(batch))
            self._watched.watch(batch.halves)
            self._put(batch)

    def __len__(self) -> int:
        return sum(link.count for link in self._chain)

    def _unseen(self, batch: Batch) -> Indices:
        """The positions, ascending, of the keys that no slice holds."""
        if len(batch) < _NARROW:
            return np.logical_not(self._stack.holds(batch)).nonzero()[0]
        newest, *older = reversed(self._chain)
        left = np.flatnonzero(~newest.filter.holds(batch))
        if older and len(left):
            rest = batch.at(left, asked=True)
            for link in older:
                keep = np.flatnonzero(~link.filter.holds(rest))
                left, rest = left.take(keep), rest.at(keep, asked=True)
        return left

    def _put(self, batch: Batch) -> None:
        """Add keys known to be new, in order, across the ends of slices."""
        start, size = 0, len(batch)
        while start < size:
            link = self._open()
            part = size - start
            if not self._overfills:
                part = min(part, link.capacity - link.count)
            link.filter.put(batch if part == size else batch.at(np.arange(start, start + part)))
            link.count += part
            link.admitted += part
            start += part

    def _add_one(self, h1: int, h2: int) -> bool:
        new = not self._ask_one(h1, h2)
        if new:
            self._put_one(h1, h2)
        self._watched.watch_one(h1, h2, new)
        return new

    def _add_few(self, digests: bytes) -> list[int]:
        ask = self._ask_one
        pairs = list(pairs_of(digests))
        known = [ask(h1, h2) for h1, h2 in pairs]
        fresh: dict[tuple[int, int], int] = {}
        for position, held in enumerate(known):
            if not held:
                fresh.setdefault(pairs[position], position)
        self._need(len(fresh))
        watch = self._watched.watch_one
        for (h1, h2), held in zip(pairs, known, strict=True):
            watch(h1, h2, not held)
        for h1, h2 in fresh:
            self._put_one(h1, h2)
        return list(fresh.values())

    def _put_one(self, h1: int, h2: int) -> None:
        link = self._open()
        link.filter.put_one(h1, h2)
        link.count += 1
        link.admitted += 1

    # -- growing

    def _need(self, keys: int) -> None:
        room = self._room()
        if room is not None and keys > room:
            raise FullError(
                f"the {self.kind} filter is full: it holds {len(self)} keys and has room for {room} more, not {keys}"
            )

    def _full(self, link: Link) -> bool:
        return link.count >= link.capacity and not self._overfills

    def _open(self) -> Link:
        """The slice that takes the next key."""
        if self._full(self._chain[-1]):
            self._need(1)
            self._grow()
        return self._chain[-1]

    def _grow(self) -> None:
        try:
            part, capacity, fpp = self._make(len(self._chain) - self._guests)
        except (OverflowError, ZeroDivisionError):
            raise FilterError("such a slice is larger than any memory") from None
        self._chain.append(Link(part, capacity, fpp, compactions=self._compactions))
        self._restack()

    def _restack(self) -> None:
        self._stack = stack_of([link.filter for link in reversed(self._chain)])
        self._ask_one = self._stack.holds_one

    # -- uniting

    def unite(self, other: Chain) -> None:
        """Add all keys of ``other``, whose memory is taken over: it must not be used any more.

        The count is exact for digests. For ``bloom`` and ``bitmap`` it is estimated from the bits, for the others a key
        of both counts twice. Raises ``FilterError`` that names the parameters in which the two differ, ``FullError``
        when there is no room.
        """
        named = _differences(self._made_like(), other._made_like())
        if named:
            listed = ", ".join(f"{name} ({mine} and {its})" for name, (mine, its) in named.items())
            raise FilterError(f"filters can only be united when they are made alike; these differ in {listed}")
        self._unite(other)
        self._watched.unite(other._watched)

    def _made_like(self) -> dict[str, JSON]:
        """What must be the same of two that are united."""
        return self.parameters()

    def _unite(self, other: Chain) -> None:
        self._settle_skipped(other)
        self._guests_bound = compound((self._guests_bound, other._bound()))
        self._guests += len(other._chain)
        self._chain = other._chain + self._chain
        self._restack()

    def _settle_skipped(self, other: Chain) -> None:
        """What both have skipped so far was skipped by the slices that they had then."""
        self._skipped_before = self.expected_skipped + other.expected_skipped
        for link in (*self._chain, *other._chain):
            link.built = link.admitted

    # -- what can be told about it

    @property
    def expected_skipped(self) -> float:
        """How many absent keys were taken for present so far, in expectation."""
        total, before = self._skipped_before, 0.0
        for link in self._chain:
            skipped, fpp = link.skipped(before)
            total += skipped
            before = compound((before, fpp))
        return total

    def _bound(self) -> float:
        """What the compound fpp cannot exceed, however many keys come; of an overfull slice, what it is now."""
        promised = compound((self.fpp, self._guests_bound))
        last = self._chain[-1]
        if not self._overfills or last.count <= last.capacity:
            return promised
        return max(promised, last.filter.fpp_at(last.count), last.look().fpp)

    def statistics(self) -> SeenStatistics:
        slices = [link.statistics() for link in self._chain]
        size = sum(link.filter.words.nbytes for link in self._chain)
        count = len(self)
        return {
            "kind": self.kind,
            "slices": slices,
            "count": count,
            "count_estimated": sum(link.look().count_estimated for link in self._chain),
            "fpp_target": self.fpp,
            "fpp_bound": self._bound(),
            "fpp_estimated": compound(part["fpp_estimated"] for part in slices),
            "fpp_measured": self._watched.measured(),
            "expected_urls_skipped": self.expected_skipped,
            "bytes": size,
            "bits_per_url": size * 8 / count if count else None,
            "compactions": self._compactions,
        }

    # -- storing

    def _sealed(self, number: int) -> bool:
        return number < len(self._chain) - 1 or self._full(self._chain[number])

    def snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        state: dict[str, JSON] = {
            "parameters": self.parameters(),
            "slices": [link.state(number) for number, link in enumerate(self._chain)],
            "compactions": self._compactions,
            "skipped_before": self._skipped_before,
            "guests": self._guests,
            "guests_bound": self._guests_bound,
        }
        shot = SeenSnapshot(state, [])
        for number, link in enumerate(self._chain):
            sealed = self._sealed(number)
            words, copying = link.stored_words(sealed)
            shot.segments.append(Segment(link.name(number), sealed, link.header(), words))
            if copying is not None:
                shot.copies.append(copying)
        shot.segments.extend(self.untold())
        while whole and shot.advance():
            pass
        return shot

    def parts(self) -> list[Part]:
        slices = [
            Part(link.name(number), self._sealed(number), True, link.filter.words.nbytes)
            for number, link in enumerate(self._chain)
        ]
        return [*slices, Part(_WATCHED, False, False, self._watched.size)]

    def untold(self) -> list[Segment]:
        # Watched keys that were skipped are in no journal. Those that were not are watched already when the journal
        # brings them back, which changes nothing.
        return [Segment(_WATCHED, False, {"holds": "watched keys"}, self._watched.dump())]

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> Self:
        """The seen-set of which ``state`` is the state and ``segments`` are the stored buffers by name.

        Writable, aligned buffers (as ``read_segment`` returns them) are taken over, not copied. Raises
        ``FilterError`` when the parts do not fit together.
        """
        made = dict(state["parameters"])
        if made.pop("kind") != cls.kind:
            raise FilterError(f"the stored seen-set is of kind {state['parameters']['kind']}, not {cls.kind}")
        chain = cls(**made)
        chain._chain = [Link.stored(part, segments) for part in state["slices"]]
        if not chain._chain:
            raise FilterError("the stored seen-set has no slice")
        chain._compactions = state.get("compactions", 0)
        chain._skipped_before = state.get("skipped_before", 0.0)
        chain._guests = state.get("guests", 0)
        chain._guests_bound = state.get("guests_bound", 0.0)
        chain._watched = WatchedKeys.load(segment(segments, _WATCHED))
        chain._restack()
        return chain


class ForgettingChain(Chain):
    """A chain whose slices can lose keys again."""

    def forget(self, key: str) -> None:
        """Take ``key`` out. Raises ``AbsentKeyError`` when it is not in, ``FilterError`` when two slices claim it."""
        digest = digest_keys((key,))
        if not self.forget_digests(digest):
            return
        if not self._claims(digest):
            raise AbsentKeyError(f"not in the {self.kind} filter: {key}")
        raise FilterError(f"cannot be forgotten, as more than one slice of the {self.kind} filter claims it: {key}")

    def forget_digests(self, digests: bytes) -> list[int]:
        """Take keys out; the positions of those that stay as they were: not in, or claimed by two slices.

        One of two slices that claim a key is wrong, and nobody knows which; taking the key out of the wrong one would
        make the filter deny others. Only keys that were found new may be forgotten, for the same reason: a key that
        was taken for a known one shares the traces of others.
        """
        left = []
        for position, (h1, h2) in enumerate(digest_words(digests).tolist()):
            claims = self._claims(digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES])
            before = [link.filter for link in claims]
            if len(claims) != 1 or not claims[0].forget_one(h1, h2):
                left.append(position)
            if [link.filter for link in claims] != before:
                self._restack()
        return left

    def _claims(self, digest: bytes) -> list[Link]:
        ((h1, h2),) = pairs_of(digest)
        return [link for link in self._chain if link.filter.holds_one(h1, h2)]


def _differences(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [*mine, *(name for name in other if name not in mine)]
    return {name: (mine.get(name), other.get(name)) for name in names if mine.get(name) != other.get(name)}


def _first_occurrences(batch: Batch, positions: Indices) -> Indices:
    """``positions`` less those whose digest stands at an earlier one."""
    halves = batch.halves[:, 0].take(positions)
    if len(halves) < _FEW_TO_SORT:
        if len(set(halves.tolist())) == len(halves):
            return positions
    else:
        halves.sort()
        if not (halves[1:] == halves[:-1]).any():
            return positions
    firsts: dict[bytes, int] = {}
    for position in positions.tolist():
        firsts.setdefault(batch.halves[position].tobytes(), position)
    return np.fromiter(firsts.values(), np.intp, len(firsts))
