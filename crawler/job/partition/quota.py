"""Divides the page limit of a whole crawl among its partitions. One partition is the coordinator: it grants allowances
in blocks, and an idle partition gives back what it has not spent.

An allowance is a total with a version. The coordinator raises a total, its partition lowers it, and each change takes
the next version. Both repeatedly send what they know over a carrier that may lose entries and may redeliver old ones:
each message received is compared by version, so nothing is granted twice. The coordinator stores a grant before sending
it, and a partition stores what it gives back before sending it. Hence the pages that partitions may fetch never exceed
the limit, whatever is lost or killed:

    the allowance a partition knows  <=  the allowance the coordinator holds for it

Pure: the caller provides stores and messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from crawler.job.records import StoredValue


class Allowance(Struct, frozen=True, array_like=True):
    """The number of pages a partition may have fetched in total, and the number of changes that led to it."""

    version: int = 0
    total: int = 0


_ALLOWANCE = StoredValue(Allowance, "an allowance of pages")
encode_allowance, decode_allowance = _ALLOWANCE.encode, _ALLOWANCE.decode


class Wish(Struct, frozen=True, array_like=True, tag=1):
    """A partition's message to the coordinator: its allowance, and how many more pages it could fetch now."""

    has: Allowance
    more: int = 0


class Grant(Struct, frozen=True, array_like=True, tag=2):
    """The coordinator's message to a partition: its allowance, and whether pages are left to grant."""

    gives: Allowance
    left: bool


class CrawlQuota:
    """Grants at most ``limit`` pages to ``partitions`` partitions. ``allowances``: the grants of earlier runs, perhaps
    under another limit; if they exceed the limit, nothing more is granted.

    Nothing is granted before all partitions have sent a wish either: a partition may have fetched pages in a run
    without a limit, unknown to the coordinator.
    """

    def __init__(self, limit: int, partitions: int, allowances: Mapping[int, Allowance]) -> None:
        self._limit = limit
        self._partitions = partitions
        self.allowances = dict(allowances)
        self._wishes: dict[int, Wish] = {}  # the last wish of each partition

    @property
    def left(self) -> int:
        """The number of pages not granted."""
        return max(0, self._limit - sum(each.total for each in self.allowances.values()))

    @property
    def unheard(self) -> list[int]:
        """The partitions that have not sent a wish."""
        return [number for number in range(self._partitions) if number not in self._wishes]

    @property
    def granting(self) -> list[int]:
        """The partitions that get more when their last wishes are processed again."""
        held, could = self.allowances, not self.unheard and self.left > 0
        return [number for number, wish in self._wishes.items() if could and wish.more and wish.has == held.get(number)]

    def hear(self, partition: int, wish: Wish | None = None) -> tuple[Grant, bool]:
        """Process a wish, or the partition's last one once more. Returns the answer, and True if the partition's
        allowance has changed: then store it durably before sending the answer."""
        wish = self._wishes[partition] = wish or self._wishes[partition]
        held = before = self.allowances.get(partition, Allowance())
        if wish.has.version > held.version:  # it gave pages back, or this coordinator's state was lost
            held = wish.has
        if wish.has == held and wish.more > 0 and not self.unheard:
            self.allowances[partition] = held
            block = min(wish.more, self._block())
            if block:
                held = Allowance(held.version + 1, held.total + block)
        self.allowances[partition] = held
        return Grant(held, self.left > 0), held != before

    def _block(self) -> int:
        """Return the number of pages to grant at a time: an equal share for each partition that waits for some."""
        return -(-self.left // max(1, len(self.granting)))


class PartitionQuota:
    """The allowance of one partition, as known to the partition."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self._answered = True  # whether the last wish for more was answered
        self.bank_is_empty = False  # according to the last answer

    def begin(self, fetched: int) -> bool:
        """Count the pages that were fetched without an allowance. Returns True if there are any: then store the
        allowance durably before informing the coordinator."""
        if fetched <= self.total:
            return False
        # The coordinator may have granted under the next version, and is never further ahead.
        self.allowance = Allowance(self.allowance.version + 2, fetched)
        return True

    @property
    def total(self) -> int:
        """The number of pages the partition may have fetched in total."""
        return self.allowance.total

    def wish(self, more: int) -> Wish:
        """Return the message for the coordinator when ``more`` pages could be fetched now."""
        if more:
            self._answered = False
        return Wish(self.allowance, more)

    def hear(self, grant: Grant) -> bool:
        """Process an answer. Returns True if the allowance has changed."""
        if grant.gives.version < self.allowance.version:
            return False  # the coordinator has not yet received what was given back
        self._answered = True
        self.bank_is_empty = not grant.left
        changed = grant.gives != self.allowance
        # With equal versions the coordinator wins: it granted pages while this partition gave some back.
        self.allowance = grant.gives
        return changed

    def give_back(self, spent: int) -> bool:
        """Keep only ``spent`` pages, those fetched or in flight. Returns True if that changed anything: then store the
        allowance durably before informing the coordinator. Does nothing while a wish for more is unanswered, because
        its answer may be in flight."""
        if not self._answered or spent >= self.total:
            return False
        self.allowance = replace(self.allowance, version=self.allowance.version + 1, total=spent)
        return True
