"""The interface of every kind of seen-set.

A crawl admits the keys of a transaction with ``admit``, which hashes each key once, and stores their digests in its
journal. ``restore`` rebuilds the seen-set from the digests. "New" always means: not found before, and added now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import islice
from typing import Protocol, TypedDict

from msgspec import Struct, field

from crawler.base.kv import Batch
from crawler.seen.filters.chain_compaction import SuccessorSlice
from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.digests import Key, list_keys
from crawler.seen.slices.errors import JSON
from crawler.seen.slices.key_hash import HashDescription, KeyHash

_TOGETHER = 4_096  # keys that ``update`` adds at a time
# Maps each digest to the number of times the journal admits its key, minus the number of times it removes it.
TimesAdmitted = Callable[[bytes], Mapping[bytes, int]]


class SliceStatistics(TypedDict):
    """One slice of a seen-set."""

    capacity: int
    count: int
    bits: int
    hashes: int
    fill: float  # set bits / bits
    fpp_design: float  # when full
    fpp_estimated: float  # now, from the bits


class MeasuredFpp(TypedDict):
    """The rate of false positives among the keys watched exactly, with its 95% interval."""

    value: float
    low: float
    high: float
    sample: int


class SeenStatistics(TypedDict):
    """The ``seen.*`` keys of ``stats --json``."""

    kind: str
    hash: HashDescription
    slices: list[SliceStatistics]
    count: int  # number of keys found new
    count_estimated: float  # the number of keys estimated from the fill ratio
    count_suspect: bool  # the two counts differ too much for chance: keys were chosen, or the memory is damaged
    fpp_target: float
    fpp_bound: float
    fpp_estimated: float  # the compound fpp of the current slices
    fpp_measured: MeasuredFpp | None
    expected_urls_skipped: float  # number expected so far
    bytes: int
    bits_per_url: float | None
    compactions: int  # how often one slice has replaced the chain


class Claim(Struct, frozen=True):
    """A slice that reports a key as present."""

    number: int  # of the slice; 1 is the oldest
    count: int  # keys in the slice
    fpp_estimated: float  # chance that the slice reports an absent key


class Lookup(Struct, frozen=True):
    """The answer of a seen-set for one key, and how reliable it is. The answer "unknown" is always certain."""

    known: bool
    certain: bool
    fpp: float  # chance that the seen-set reports an absent key as known
    slices: int  # number of slices; 0 if the answer does not depend on slices
    claims: tuple[Claim, ...]


class NotForgotten(StrEnum):
    """The reason why a key was not removed."""

    NOT_SEEN = "was not seen"
    TAKEN_FOR_ANOTHER = "was never admitted, and cannot be distinguished from admitted URLs"
    CLAIMED_TWICE = "cannot be forgotten, because two slices of the seen-set claim it"


class Segment(Struct, frozen=True):
    """One piece of stored state. A sealed piece never changes, so it is written once."""

    name: str
    sealed: bool
    header: dict[str, JSON]
    buffer: memoryview


class Part(Struct, frozen=True):
    """A segment of a future snapshot, without its bytes; ``size`` is their number. ``journaled`` is True if the journal
    can restore every key added after the segment was stored."""

    name: str
    sealed: bool
    journaled: bool
    size: int


class SeenSnapshot(Struct, frozen=True):
    """A seen-set at one moment. ``state`` is a copy; the buffers of ``segments`` are live views, or copies.

    Live views may be stored with bits of later keys. That is harmless: the journal has those keys, and sets the same
    bits again. For kinds where later changes would be harmful, ``copies`` are made. They are complete once ``advance``
    has returned False.
    """

    state: dict[str, JSON]
    segments: list[Segment]
    copies: list[CowSnapshot] = field(default_factory=list)

    def advance(self) -> bool:
        """Copy the next piece; call it between additions. Returns True while there is more to copy. A piece takes a
        fraction of a millisecond."""
        if self.copies and not self.copies[-1].advance():
            self.copies.pop()
        return bool(self.copies)


class Compactable(Protocol):
    """A seen-set whose slices can be rebuilt as one, the successor, from the digests of all its keys."""

    @property
    def slices(self) -> int:
        """The number of slices in which a new key is looked up."""

    def successor(self) -> SuccessorSlice:
        """Return an empty slice, which can replace all slices once every key has been put into it.

        Raises ``FilterError`` if there is not enough memory."""

    def succeed(self, successor: SuccessorSlice) -> None:
        """Replace all slices by ``successor``, which must not be used afterwards.

        It must hold every key of the chain, including those added after it was created. Raises ``FilterError``, without
        a change, if its number of keys differs from the chain's or exceeds its capacity."""

    def __len__(self) -> int: ...


class SeenSet(Protocol):
    """A set of keys that never denies a key it holds. A probabilistic seen-set may report a new key as known.

    Every kind inherits the methods that have a body here."""

    kind: str
    certain: bool  # True if it has no false positives
    hash: KeyHash  # makes all digests; contains the secret

    # -- keys outside a crawl

    def add(self, key: Key) -> bool:
        """Add one key. Returns whether it was new."""
        return bool(self.add_many((key,)))

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """Add ``keys``. Returns the positions of the new ones, ascending; a repeated key is new the first time."""

    def update(self, *others: Iterable[Key]) -> None:
        """Add the keys of ``others``, which may be generators: at most 4,096 keys are in memory at a time."""
        for keys in others:
            if isinstance(keys, str | bytes):
                list_keys(keys)  # raises TypeError for a single key
            rest = iter(keys)
            while some := list(islice(rest, _TOGETHER)):
                self.add_many(some)

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """Return, for each key, True if it was added before or is a false positive."""

    def __contains__(self, key: object) -> bool:
        """Look up one key. Like all methods that take keys, raises ``TypeError`` unless each key is a ``str`` or
        ``bytes``."""
        return self.contains_many((key,))[0]  # type: ignore[arg-type]  # raises TypeError for anything else

    def __len__(self) -> int:
        """Return the number of keys found new so far; after a union it is an estimate or an upper bound, except that it
        is exact for ``digest``."""

    def lookup(self, key: Key) -> Lookup:
        """Look up the key. Returns the answer, its reliability, and the slices that hold the key."""

    # -- keys in a transaction of a crawl

    def digests(self, keys: Iterable[Key]) -> bytes:
        """Return the concatenated digests of ``keys`` for the journal, 16 bytes each, in order."""
        return self.hash.digest_keys(keys)

    def admit(self, keys: Iterable[Key], batch: Batch) -> tuple[bytes, list[int]]:
        """Add ``keys``, and put the changes to store into ``batch``. Returns the digests of all keys, and the positions
        of the new ones, ascending. Raises OSError if the seen-set reads the disk."""

    @property
    def cannot_forget(self) -> str | None:
        """Why this kind cannot forget keys, or None if it can."""
        return None

    def forget_keys(self, keys: Iterable[Key], batch: Batch, admitted: TimesAdmitted) -> dict[int, NotForgotten]:
        """Remove ``keys``, and put the changes to store into ``batch``. Returns the positions of the keys that could
        not be removed, with the reason. A kind with false positives first looks the keys up in the journal with
        ``admitted``. Raises OSError, and ``CannotForgetError`` if ``cannot_forget`` gives a reason."""

    # -- restoring from the journal

    def restore(self, digests: bytes) -> None:
        """Add keys that were new when the journal recorded them, in that order, without looking them up.

        Counts and growth become what they were before the restart, even if a stored segment already holds bits of some
        of the keys.
        """

    def restore_forgotten(self, digests: bytes) -> None:
        """Remove keys that ``forget_keys`` removed before the restart."""

    def might_contain_digests(self, digests: bytes) -> list[bool]:
        """Return, for each digest, True if its key may be present. False for an admitted key is damage."""

    @property
    def compactable(self) -> Compactable | None:
        """The seen-set itself if it can be compacted, otherwise None."""
        return None

    # -- statistics, and the stored form

    def parameters(self) -> dict[str, JSON]:
        """Return the parameters that shape the stored state."""

    def statistics(self) -> SeenStatistics:
        """Return the ``seen`` statistics of ``stats --json``. Cheap enough to call every second."""

    def snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        """Take a snapshot between two additions; ``load_seen`` reads it. This is cheap if nothing must be copied, or if
        the snapshot need not be ``whole``: the caller then calls ``advance`` until that returns False."""

    def parts(self) -> list[Part]:
        """Return the segments that a snapshot would have, without copying them."""

    def unjournaled_segments(self) -> list[Segment]:
        """Return the current segments that the journal cannot restore. Together with the state and the other segments
        of an earlier snapshot, and the keys restored since, they form the current seen-set."""
