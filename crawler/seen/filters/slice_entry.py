"""One slice of a chain: the filter, its design figures and its counts."""

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

# For an overfull slice: below this fpp the skipped keys are computed from the counts, above it from the fill.
_COUNTS_TELL, _FILL_TELLS = 0.25, 0.75


# How far the estimated number of keys may be off: see ``suspect``.
_SIGMAS, _MODEL_ERROR, _FEW_KEYS = 6, 0.02, 8


class Reading(Struct, frozen=True):
    """The figures read from the memory of a slice after ``changes`` changes."""

    changes: int
    fill: float
    fpp: float
    count_estimated: float


class SliceEntry(Struct, eq=False):
    """A slice with its counts: ``count`` keys are in now, ``admitted`` keys were ever added."""

    filter: Slice
    capacity: int
    fpp_design: float
    count: int = 0
    admitted: int = 0  # including those that were forgotten
    revision: int = 0  # how often a sealed slice was replaced by a changed copy
    published: bool = False  # a snapshot holds this revision as a sealed one: it must not change
    compactions: int = 0  # of the chain when this slice was made
    built: int = 0  # keys added when the slice replaced a chain, without a lookup in it
    _curve: tuple[int, SkipCurve] | None = None
    _last: Reading | None = None

    def reading(self) -> Reading:
        """The figures read from the memory, at most once after each change."""
        changes = 2 * self.admitted - self.count
        if self._last is None or self._last.changes != changes:
            part = self.filter
            self._last = Reading(changes, part.fill(), part.fpp_estimated(), part.count_estimated())
        return self._last

    def suspect(self) -> bool:
        """Whether the memory holds more or fewer keys than were added, beyond what chance explains.

        Keys whose digests nobody chose leave a fill that is known in advance, up to its standard deviation: it lies
        within six of them but for one time in 500 million. A fiftieth is added for what the model leaves out, and
        some keys for tiny slices. Keys that were chosen to fall on few bits leave fewer, those that were chosen to
        share no bits leave more; to raise the fpp they must do one or the other."""
        part = self.filter
        skipped, fpp = self.skipped(0.0)
        if fpp > _COUNTS_TELL or (isinstance(part, CountingSlice) and (self.built or self.count < self.admitted)):
            # An overfull slice is told by its fpp; united counters count a key of both once, and saturated ones lie.
            return False
        expected = self.count + skipped * self.count / max(1, self.admitted)
        allowed = _SIGMAS * part.spread(expected) + _MODEL_ERROR * expected + _FEW_KEYS
        return abs(self.reading().count_estimated - expected) > allowed

    def take_counts(self, other: SliceEntry) -> None:
        """Add the counts of a slice whose keys were put into this one."""
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
        """The expected number of keys skipped while this slice was open, and its current fpp. ``before`` is the
        compound fpp of the older slices.

        In a slice that is several times overfull, nearly every key is skipped, and the count of the others says little.
        The fill says more: a skipped key finds its bits set, so the fill is the same as if all keys had been added."""
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
        """A copy with memory of its own. Raises ``FilterError`` when there is not enough memory."""
        return replace(self, filter=copied_slice(self.filter))

    # -- storing

    def header(self) -> dict[str, JSON]:
        """Enough to rebuild the slice around its stored memory."""
        return {**self.filter.geometry(), "capacity": self.capacity, "fpp": self.fpp_design}

    def name(self, number: int) -> str:
        """The name of its segment: different for two different sealed contents."""
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
        """The memory to store while keys are added, and the copy that must be completed first, if any."""
        self.published |= sealed
        part = self.filter
        if sealed or not isinstance(part, Forgetful):
            return part.words.data.cast("B"), None
        copying = CowSnapshot(part)
        return copying.words.data.cast("B"), copying

    def forget_one(self, h1: int, h2: int) -> bool:
        """Remove one key, in a copy if a snapshot holds this revision. Returns False if the key is not in."""
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
        """The inverse of ``state`` and ``stored_words``. Raises ``FilterError`` when they do not fit together."""
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
                raise FilterError(f"segment {name}: {what} cannot be {number!r}")
        count, admitted, capacity = counts["count"], counts["admitted"], counts["capacity"]
        if not count <= admitted or counts["built"] > admitted or capacity < 1:
            raise FilterError(f"segment {name}: {count} keys of {admitted} admitted, for {capacity}, cannot be")
        fpp = state["fpp"]
        if not isinstance(fpp, float) or not 0 < fpp <= 1:
            raise FilterError(f"segment {name}: fpp cannot be {fpp!r}")
        try:
            part = stored_slice(state, adopt_words(segment(segments, name)))
        except ValueError as problem:
            raise FilterError(f"segment {name}: {problem}") from None
        return cls(part, fpp_design=fpp, published=True, **counts)


def segment(segments: Mapping[str, memoryview], name: str) -> memoryview:
    """The stored buffer of that name. Raises ``FilterError`` when it is missing."""
    if name not in segments:
        raise FilterError(f"segment {name} of the stored seen-set is missing")
    return segments[name]
