"""One slice of a chain: the filter, its design parameters and its counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawler.seen.filters.protocol import SliceStatistics
from crawler.seen.slices.bit_storage import adopt_words
from crawler.seen.slices.contract import Forgetful, Slice
from crawler.seen.slices.counting_slice import CountingSlice
from crawler.seen.slices.cow_snapshot import CowSnapshot
from crawler.seen.slices.errors import JSON, FilterError
from crawler.seen.slices.fpp_model import SkipCurve
from crawler.seen.slices.layouts import copied_slice, stored_slice

# For an overfull slice: below the first fpp, the skipped keys are computed from the counts; above the second, from
# the fill.
_COUNTS_TELL, _FILL_TELLS = 0.25, 0.75


# The tolerance for the estimated number of keys: see ``suspect``.
_SIGMAS, _MODEL_ERROR, _FEW_KEYS = 6, 0.02, 8


class Reading(Struct, frozen=True):
    """Statistics read from the memory of a slice after ``changes`` changes."""

    changes: int
    fill: float
    fpp: float
    count_estimated: float


class SliceEntry(Struct, eq=False):
    """A slice with its counts: ``count`` keys are present now, ``admitted`` keys were ever added."""

    filter: Slice
    capacity: int
    fpp_design: float
    count: int = 0
    admitted: int = 0  # including forgotten keys
    revision: int = 0  # how often a changed copy has replaced the sealed slice
    published: bool = False  # a snapshot holds this revision as sealed, so it must not change
    compactions: int = 0  # number of compactions of the chain when this slice was created
    built: int = 0  # keys that the slice held when it replaced a chain; they were added without a lookup in it
    _curve: tuple[int, SkipCurve] | None = None
    _last: Reading | None = None

    def reading(self) -> Reading:
        """Return the statistics of the memory, which is read at most once after each change."""
        changes = 2 * self.admitted - self.count
        if self._last is None or self._last.changes != changes:
            part = self.filter
            self._last = Reading(changes, part.fill(), part.fpp_estimated(), part.count_estimated())
        return self._last

    def suspect(self) -> bool:
        """Return True if the memory seems to hold more or fewer keys than were added, by more than chance allows.

        For digests that were not chosen, the fill can be predicted up to its standard deviation: it is
        within six of them except once in 500 million. A fiftieth is allowed for errors of the model, and
        a few keys for tiny slices. Keys chosen to share bits set fewer bits; keys chosen to
        share none set more. To raise the fpp, an attacker must do one or the other."""
        part = self.filter
        skipped, fpp = self.skipped(0.0)
        if fpp > _COUNTS_TELL or (isinstance(part, CountingSlice) and (self.built or self.count < self.admitted)):
            # The fpp shows that a slice is overfull. Counters are unreliable after a union (a key in both slices is
            # counted only once), or after forgetting (saturated ones are too high).
            return False
        expected = self.count + skipped * self.count / max(1, self.admitted)
        allowed = _SIGMAS * part.spread(expected) + _MODEL_ERROR * expected + _FEW_KEYS
        return abs(self.reading().count_estimated - expected) > allowed

    def take_counts(self, other: SliceEntry) -> None:
        """Add the counts of a slice whose keys have been added to this one."""
        self.count += other.count
        self.admitted += other.admitted
        self.built = self.admitted

    def statistics(self) -> SliceStatistics:
        reading = self.reading()
        return {
            "capacity": self.capacity,
            "count": self.count,
            "bits": self.filter.words.nbytes * 8,
            "hashes": self.filter.hashes,
            "fill": reading.fill,
            "fpp_design": self.fpp_design,
            "fpp_estimated": reading.fpp,
        }

    def skipped(self, before: float) -> tuple[float, float]:
        """Return the expected number of keys skipped while this slice was open, and its current fpp. ``before`` is the
        compound fpp of the older slices.

        In a slice that is several times overfull, nearly every key is skipped, so the count of added keys says little.
        The fill is more informative: a skipped key finds its bits set, so the fill is as if all keys had been added."""
        reach = self.capacity
        while reach < self.admitted:
            reach *= 2
        if self._curve is None or self._curve[0] != reach:
            self._curve = reach, SkipCurve(self.filter.fpp_at, reach)
        curve = self._curve[1]
        skipped, fpp = curve.skipped(self.admitted, before) - curve.skipped(self.built, before), curve.fpp(self.count)
        overfull = self.admitted > self.capacity and self.count == self.admitted and not self.built
        share = min(1.0, (fpp - _COUNTS_TELL) / (_FILL_TELLS - _COUNTS_TELL))
        if overfull and share > 0:
            seen_off = max(0.0, self.reading().count_estimated - self.count)
            skipped += share * (seen_off - skipped)
        return skipped, fpp

    def copy(self) -> SliceEntry:
        """Return a copy with its own memory. Raises ``FilterError`` if there is not enough memory."""
        return replace(self, filter=copied_slice(self.filter))

    # -- storing

    def header(self) -> dict[str, JSON]:
        """Return the header that, with the stored memory, rebuilds the slice."""
        return {**self.filter.geometry(), "capacity": self.capacity, "fpp": self.fpp_design}

    def name(self, number: int) -> str:
        """Return the name of the slice's segment, which is unique to its sealed content."""
        chain = f"{self.compactions}." if self.compactions else ""
        return f"slice-{chain}{number:04d}" + (f"-{self.revision}" if self.revision else "")

    def state(self, number: int) -> dict[str, JSON]:
        return {
            "segment": self.name(number),
            "count": self.count,
            "admitted": self.admitted,
            "revision": self.revision,
            "compactions": self.compactions,
            "built": self.built,
            **self.header(),
        }

    def stored_words(self, sealed: bool) -> tuple[memoryview, CowSnapshot | None]:
        """Return the memory to store while keys are added, and the copy that must be completed first, or None."""
        self.published |= sealed
        part = self.filter
        if sealed or not isinstance(part, Forgetful):
            return part.words.data.cast("B"), None
        copying = CowSnapshot(part)
        return copying.words.data.cast("B"), copying

    def forget_one(self, h1: int, h2: int) -> bool:
        """Remove one key, in a copy if a snapshot holds this revision. Returns False if the key is not present."""
        if self.published:
            self.filter = copied_slice(self.filter)
            self.revision += 1
            self.published = False
        part = self.filter
        if not isinstance(part, Forgetful):
            raise TypeError(f"{type(part).__name__} cannot forget")
        if not part.forget_one(h1, h2):
            return False
        self.count -= 1
        return True

    @classmethod
    def stored(cls, state: Mapping[str, Any], segments: Mapping[str, memoryview]) -> SliceEntry:
        """Rebuild a slice from ``state`` and ``stored_words``. Raises ``FilterError`` if they do not fit together."""
        name = state["segment"]
        counts = {
            "count": state["count"],
            "admitted": state["admitted"],
            "capacity": state["capacity"],
            "revision": state["revision"],
            "compactions": state.get("compactions", 0),
            "built": state.get("built", 0),
        }
        for what, number in counts.items():
            if not isinstance(number, int) or not 0 <= number < 2**63:
                raise FilterError(f"segment {name}: invalid {what}: {number!r}")
        count, admitted, capacity = counts["count"], counts["admitted"], counts["capacity"]
        if not count <= admitted or counts["built"] > admitted or capacity < 1:
            raise FilterError(
                f"segment {name}: inconsistent counts: {count} keys, {admitted} admitted, capacity {capacity}"
            )
        fpp = state["fpp"]
        if not isinstance(fpp, float) or not 0 < fpp <= 1:
            raise FilterError(f"segment {name}: invalid fpp: {fpp!r}")
        try:
            part = stored_slice(state, adopt_words(segment(segments, name)))
        except ValueError as problem:
            raise FilterError(f"segment {name}: {problem}") from None
        return cls(part, fpp_design=fpp, published=True, **counts)


def segment(segments: Mapping[str, memoryview], name: str) -> memoryview:
    """Return the stored buffer with this name. Raises ``FilterError`` if it is missing."""
    if name not in segments:
        raise FilterError(f"segment {name} of the stored seen-set is missing")
    return segments[name]
