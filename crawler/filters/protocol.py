"""What every kind of seen-set offers, whatever it keeps inside.

The crawl hashes a key once (``digest_keys``) and speaks digests from then on; the methods on ``str`` keys are
the same thing one step earlier. "New" always means: not found before, and added now.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from crawler.slices.digests import digest_keys
from crawler.slices.errors import JSON


class SliceStatistics(TypedDict):
    """One fixed filter of a chain."""

    capacity: int
    count: int
    bits: int
    hashes: int
    fill: float  # set bits / bits
    fpp_design: float  # when full
    fpp_estimated: float  # now, from the bits


class MeasuredFpp(TypedDict):
    """Absent keys that were called present, of those watched exactly; with a 95% interval."""

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
    compactions: int  # how often one slice took the place of all


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of stored state. A sealed one never changes again: it is written once."""

    name: str
    sealed: bool
    header: dict[str, JSON]
    buffer: memoryview


@dataclass(frozen=True, slots=True)
class Part:
    """A segment that a snapshot would have, without its bytes; ``size`` is theirs. Of one that is ``told`` the journal
    brings back whatever came into it since it was stored."""

    name: str
    sealed: bool
    told: bool
    size: int


class Copying(Protocol):
    """A copy that is made piece by piece."""

    def advance(self) -> bool:
        """Copy the next piece; True while more are left."""
        ...


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """A moment of a seen-set. ``state`` is a copy, the buffers of ``segments`` are live views, or copies.

    Live views may be stored with bits of keys that came after the moment. That does no harm: those keys follow in the
    journal, and setting a bit twice is setting it once. Where it would do harm ``copies`` are made: they are whole when
    ``advance`` has returned False.
    """

    state: dict[str, JSON]
    segments: list[Segment]
    copies: list[Copying] = field(default_factory=list)

    def advance(self) -> bool:
        """Copy the next piece, between two additions; True while more are left. A fraction of a millisecond."""
        if self.copies and not self.copies[-1].advance():
            self.copies.pop()
        return bool(self.copies)


class SeenSet(Protocol):
    """A set of keys, perhaps a probabilistic one: never forgets a key, may take a new one for known."""

    kind: str

    def add_many(self, keys: Sequence[str]) -> list[int]:
        """Add ``keys``; the positions, ascending, of the new ones. A repeated key is new the first time."""
        ...

    def add_digests(self, digests: bytes) -> list[int]:
        """The same on digests of 16 bytes."""
        ...

    def contains_many(self, keys: Sequence[str]) -> list[bool]:
        """For each key: was it added before (or is taken for one that was)?"""
        ...

    def contains_digests(self, digests: bytes) -> list[bool]:
        """The same on digests of 16 bytes."""
        ...

    def add(self, key: str) -> bool:
        """Add one key; was it new?"""
        ...

    def __contains__(self, key: object) -> bool: ...

    def __len__(self) -> int:
        """Keys found new so far; estimated where it must be."""
        ...

    def restore(self, digests: bytes) -> None:
        """Add keys that were found new before, in that order, without asking whether they are.

        Counts and growth come out as they did then, also when a stored segment holds bits of some of them
        already.
        """
        ...

    def parameters(self) -> dict[str, JSON]:
        """What shapes stored state."""
        ...

    def statistics(self) -> SeenStatistics:
        """Cheap: meant to be asked once a second."""
        ...

    def snapshot(self, *, whole: bool = True) -> SeenSnapshot:
        """To be taken between two additions; ``load_seen`` is the inverse. Cheap where nothing must be copied, or when
        it need not be ``whole``: who asks for that calls ``advance`` until it is."""
        ...

    def parts(self) -> list[Part]:
        """The segments that a snapshot would have; none is made, nothing is copied."""
        ...

    def untold(self) -> list[Segment]:
        """Those segments that are not ``told``, as they are now. With the other ones and the state of an earlier
        snapshot, and the keys since that one restored, they are the seen-set as it is."""
        ...


class DigestSet(ABC):
    """The methods on ``str`` keys, in terms of those on digests."""

    @abstractmethod
    def add_digests(self, digests: bytes) -> list[int]: ...

    @abstractmethod
    def contains_digests(self, digests: bytes) -> list[bool]: ...

    def add_many(self, keys: Sequence[str]) -> list[int]:
        return self.add_digests(digest_keys(keys))

    def contains_many(self, keys: Sequence[str]) -> list[bool]:
        return self.contains_digests(digest_keys(keys))

    def add(self, key: str) -> bool:
        return bool(self.add_digests(digest_keys((key,))))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.contains_digests(digest_keys((key,)))[0]
