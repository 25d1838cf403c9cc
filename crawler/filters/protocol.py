"""What every kind of seen-set offers, whatever it keeps inside.

A crawl admits the keys of a step with ``admit``, which hashes each key once, and stores their digests in its journal.
From those ``restore`` rebuilds the seen-set. "New" always means: not found before, and added now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypedDict

from crawler.kv import Batch
from crawler.slices.digests import Key
from crawler.slices.errors import JSON

# For each digest: how often the journal admits its key, less how often it takes the key out.
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
    """Absent keys that were called present, among the keys watched exactly; with a 95% interval."""

    value: float
    low: float
    high: float
    sample: int


class SeenStatistics(TypedDict):
    """The ``seen.*`` keys of ``stats --json``."""

    kind: str
    slices: list[SliceStatistics]
    count: int  # keys found new
    count_estimated: float  # the same, guessed from the fill ratio alone
    fpp_target: float
    fpp_bound: float
    fpp_estimated: float  # for the next absent key
    fpp_measured: MeasuredFpp | None
    expected_urls_skipped: float  # so far
    bytes: int
    bits_per_url: float | None
    compactions: int  # how often one slice replaced the chain


@dataclass(frozen=True, slots=True)
class Claim:
    """A slice that says it holds a key."""

    number: int  # of the slice, from 1, the oldest
    count: int  # keys in the slice
    fpp: float  # chance that the slice says so of an absent key


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a seen-set says of one key, and how far that can be trusted. "No" is always certain."""

    known: bool
    certain: bool
    fpp: float  # chance that the seen-set says so of an absent key
    slices: int  # how many there are; 0 where the slices do not decide
    claims: tuple[Claim, ...]


class NotForgotten(StrEnum):
    """Why a key was not taken out."""

    NOT_SEEN = "was not seen"
    TAKEN_FOR_ANOTHER = "was never admitted, and cannot be told from URLs that were"
    CLAIMED_TWICE = "cannot be forgotten, as two slices of the seen-set claim it"


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of stored state. A sealed one never changes again: it is written once."""

    name: str
    sealed: bool
    header: dict[str, JSON]
    buffer: memoryview


@dataclass(frozen=True, slots=True)
class Part:
    """A segment that a snapshot would have, without its bytes: only their number, ``size``. If it is ``journaled``, the
    journal brings back every key that came into it after it was stored."""

    name: str
    sealed: bool
    journaled: bool
    size: int


class Copying(Protocol):
    """A copy that is made piece by piece."""

    def advance(self) -> bool:
        """Copy the next piece. True while there is more to copy."""
        ...


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """A moment of a seen-set. ``state`` is a copy; the buffers of ``segments`` are live views, or copies.

    Live views may be stored with bits of keys that came after the moment. That does no harm: those keys follow in the
    journal, and setting a bit twice is setting it once. Where it would do harm ``copies`` are made. They are complete
    when ``advance`` has returned False.
    """

    state: dict[str, JSON]
    segments: list[Segment]
    copies: list[Copying] = field(default_factory=list)

    def advance(self) -> bool:
        """Copy the next piece, between two additions. True while there is more. Takes a fraction of a millisecond."""
        if self.copies and not self.copies[-1].advance():
            self.copies.pop()
        return bool(self.copies)


class Successor(Protocol):
    """The slice that will replace a chain, while it is built."""

    capacity: int

    @property
    def room(self) -> int:
        """How many keys it still takes."""
        ...

    def touch(self) -> bool:
        """Write to the next part of the memory, before the first key is put. True when all of it is touched."""
        ...

    def put(self, digests: bytes) -> None:
        """Add keys of the chain, each once, and no more than there is room for."""
        ...


class Compactable(Protocol):
    """A seen-set whose slices can be rebuilt as one, the successor, from the digests of all its keys."""

    @property
    def slices(self) -> int:
        """How many slices a new key is asked of."""
        ...

    def successor(self) -> Successor:
        """An empty slice that can replace all slices once every key was put into it.

        Raises ``FilterError`` when there is no memory for it."""
        ...

    def succeed(self, successor: Successor) -> None:
        """Replace all slices by ``successor``, which must not be used any more.

        It must hold every key of the chain, also those added after it was made. Raises ``FilterError``, and changes
        nothing, when it holds another number of keys, or more than it has room for."""
        ...

    def __len__(self) -> int: ...


class SeenSet(Protocol):
    """A set of keys that never denies a key it holds. A probabilistic one may mistake a new key for a known one."""

    kind: str

    # -- keys by themselves

    def add(self, key: Key) -> bool:
        """Add one key. Was it new?"""
        ...

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """Add ``keys``. Returns the positions, ascending, of the new ones; a repeated key is new the first time."""
        ...

    def update(self, *others: Iterable[Key]) -> None:
        """Add the keys of ``others``, however many there are."""
        ...

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """For each key: was it added before, or is it mistaken for one that was?"""
        ...

    def __contains__(self, key: object) -> bool:
        """Raises ``TypeError`` for anything but ``str`` and ``bytes``, as all methods do that take keys."""
        ...

    def __len__(self) -> int:
        """How many keys were found new so far; after a union an estimate or an upper bound, exact for digests."""
        ...

    def lookup(self, key: Key) -> Lookup:
        """Whether the key is known, which slices say so, and how far that can be trusted."""
        ...

    # -- keys as one step of a crawl

    def digests(self, keys: Iterable[Key]) -> bytes:
        """What the journal keeps of ``keys``: 16 bytes each, in their order, concatenated."""
        ...

    def admit(self, keys: Iterable[Key], batch: Batch) -> tuple[bytes, list[int]]:
        """Add ``keys``; what has to be stored for that is put into ``batch``. Returns the digests of all keys, and the
        positions, ascending, of the new ones. Raises OSError where the seen-set reads the disk."""
        ...

    @property
    def cannot_forget(self) -> str | None:
        """Why this kind cannot forget any key; None if it can."""
        ...

    def forget_keys(self, keys: Iterable[Key], batch: Batch, admitted: TimesAdmitted) -> dict[int, NotForgotten]:
        """Take ``keys`` out; what has to be stored for that is put into ``batch``. Returns the positions of the keys
        that could not be taken out, and why. A kind that might take a key for another asks the journal, ``admitted``.
        Raises ``CannotForgetError`` where ``cannot_forget`` gives a reason, OSError."""
        ...

    # -- brought back from the journal

    def restore(self, digests: bytes) -> None:
        """Add keys that were found new before, in that order, without asking whether they are.

        Counts and growth come out as they did then, also when a stored segment holds bits of some of them
        already.
        """
        ...

    def restore_forgotten(self, digests: bytes) -> None:
        """Take out keys that ``forget_keys`` took out before."""
        ...

    def might_contain_digests(self, digests: bytes) -> list[bool]:
        """For each digest: might its key be in? False for a key that was admitted is damage."""
        ...

    @property
    def compactable(self) -> Compactable | None:
        """The same seen-set as one that can be compacted; None for a kind that cannot."""
        ...

    # -- figures, and the stored form

    def parameters(self) -> dict[str, JSON]:
        """What shapes stored state."""
        ...

    def statistics(self) -> SeenStatistics:
        """Cheap: meant to be asked once a second."""
        ...

    def snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        """To be taken between two additions; ``load_seen`` is the inverse. Cheap where nothing has to be copied, and
        where it need not be ``whole``: the caller then calls ``advance`` until it is."""
        ...

    def parts(self) -> list[Part]:
        """The segments that a snapshot would have. Makes none and copies nothing."""
        ...

    def unjournaled_segments(self) -> list[Segment]:
        """The segments that the journal does not bring back, as they are now. Together with the other segments and the
        state of an earlier snapshot, and the keys restored since, they give the present seen-set."""
        ...
