"""How many pages each partition may fetch, of those that the whole crawl may. One partition is the coordinator: it
grants allowances in blocks, and an idle partition gives back what it has not spent.

An allowance is a total with a version. The coordinator raises a total, its partition lowers it, and each change takes
the next version. Both send what they know, again and again, over a carrier that may lose entries and may deliver old
ones once more: whatever arrives is compared by its version, so nothing is granted twice. The coordinator stores what it
grants before it tells it, and a partition stores what it gives back before it tells it. Hence what partitions may fetch
never exceeds the limit, whatever is lost or killed:

    what a partition believes  <=  what the coordinator holds for it

Pure: stores and messages are the caller's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace


class Allowance(Struct, frozen=True, array_like=True):
    """How many pages a partition may have fetched in all, and the number of changes that led there."""

    version: int = 0
    total: int = 0


_FORM = struct.Struct(">BQQ")
_VERSION = 1


class QuotaError(ValueError):
    """A stored allowance cannot be read."""


def encode_allowance(allowance: Allowance) -> bytes:
    """The stored form: version of the form (1 byte), version and total (8 bytes each, big-endian)."""
    return _FORM.pack(_VERSION, allowance.version, allowance.total)


def decode_allowance(value: bytes) -> Allowance:
    """The inverse of ``encode_allowance``. Raises QuotaError."""
    if len(value) != _FORM.size or value[0] != _VERSION:
        raise QuotaError("a stored allowance of pages is of an unknown version")
    _, version, total = _FORM.unpack(value)
    return Allowance(version, total)


class Wish(Struct, frozen=True):
    """What a partition tells the coordinator: its allowance, and how many more pages it could fetch now."""

    has: Allowance
    more: int = 0


class Grant(Struct, frozen=True):
    """What the coordinator tells a partition: its allowance, and whether there is anything left to grant."""

    gives: Allowance
    left: bool


class CrawlQuota:
    """Grants at most ``limit`` pages to ``partitions`` partitions. ``allowances``: what was granted by earlier runs,
    also under another limit; if that is more than the limit, nothing is granted any more.

    Before all partitions have told a wish, nothing is granted either: a partition may have fetched pages in a run
    without a limit, of which the coordinator does not know."""

    def __init__(self, limit: int, partitions: int, allowances: Mapping[int, Allowance]) -> None:
        self._limit = limit
        self._partitions = partitions
        self.allowances = dict(allowances)
        self._wishes: dict[int, Wish] = {}  # the last one of each

    @property
    def left(self) -> int:
        """How many pages are not granted."""
        return max(0, self._limit - sum(each.total for each in self.allowances.values()))

    @property
    def unheard(self) -> list[int]:
        """The partitions that have told no wish."""
        return [number for number in range(self._partitions) if number not in self._wishes]

    @property
    def granting(self) -> list[int]:
        """The partitions that are granted more as soon as their last wishes are heard again."""
        held, could = self.allowances, not self.unheard and self.left > 0
        return [number for number, wish in self._wishes.items() if could and wish.more and wish.has == held.get(number)]

    def hear_again(self, partition: int) -> tuple[Grant, bool]:
        """Hear the last wish of the partition once more."""
        return self.hear(partition, self._wishes[partition])

    def hear(self, partition: int, wish: Wish) -> tuple[Grant, bool]:
        """Return the answer, and whether the allowance of that partition has changed: then store it durably before the
        answer is sent."""
        self._wishes[partition] = wish
        held = before = self.allowances.get(partition, Allowance())
        if wish.has.version > held.version:  # it gave something back; or this coordinator was lost
            held = wish.has
        if wish.has == held and wish.more > 0 and not self.unheard:
            self.allowances[partition] = held
            block = min(wish.more, self._block())
            if block:
                held = Allowance(held.version + 1, held.total + block)
        self.allowances[partition] = held
        return Grant(held, self.left > 0), held != before

    def _block(self) -> int:
        """Pages that are granted at a time: the fewer are left, the fewer lie unspent with one partition while others
        wait."""
        left = self.left
        return min(left, max(1, left // max(1, 2 * len(self.granting))))


class PartitionQuota:
    """The allowance of one partition, as the partition knows it."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self._answered = True  # the last wish for more
        self.bank_is_empty = False  # as the last answer said

    def begin(self, fetched: int) -> bool:
        """Count the pages that were fetched without an allowance. Returns whether there are any: then store the
        allowance durably before the coordinator is told."""
        if fetched <= self.total:
            return False
        # The coordinator may have granted under the next version, and is never further ahead.
        self.allowance = Allowance(self.allowance.version + 2, fetched)
        return True

    @property
    def total(self) -> int:
        """How many pages the partition may have fetched in all."""
        return self.allowance.total

    def wish(self, more: int) -> Wish:
        """What to tell the coordinator: ``more`` pages could be fetched now."""
        if more:
            self._answered = False
        return Wish(self.allowance, more)

    def hear(self, grant: Grant) -> bool:
        """Take in an answer. Returns whether the allowance has changed."""
        if grant.gives.version < self.allowance.version:
            return False  # the coordinator has not heard yet what was given back
        self._answered = True
        self.bank_is_empty = not grant.left
        changed = grant.gives != self.allowance
        # With the same version the coordinator's word holds: it has granted while this partition gave back.
        self.allowance = grant.gives
        return changed

    def give_back(self, spent: int) -> bool:
        """Keep only ``spent`` pages, those fetched or in flight. Returns whether that changed anything: then store the
        allowance durably before the coordinator is told. Not while a wish for more is unanswered: its answer may be
        on its way."""
        if not self._answered or spent >= self.total:
            return False
        self.allowance = replace(self.allowance, version=self.allowance.version + 1, total=spent)
        return True
