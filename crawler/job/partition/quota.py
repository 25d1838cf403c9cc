"""Divides the page limit of a whole crawl among its partitions. One partition is the coordinator: it grants allowances
in blocks, and a partition gives back what it does not need.

An allowance is a total with a version. The coordinator raises a total, its partition lowers it, and each change takes
the next version. Both repeatedly send what they know over a carrier that may lose entries and may redeliver old ones:
the receiver compares the versions, so nothing is granted twice. Hence the pages that partitions may fetch never exceed
the limit, whatever is lost or killed:

    the allowance that a partition knows  <=  the allowance that the coordinator holds for it

Nothing is stored. When a partition is reopened, its allowance is the number of pages that its job has fetched, under
versions of its new epoch, which are greater than all earlier ones. A new coordinator knows nothing, and grants nothing
before all partitions have sent a wish in its *term*: from then on they accept no grant of an earlier term.

Pure: the caller provides messages.
"""

from __future__ import annotations

from msgspec import Struct


class Allowance(Struct, frozen=True, array_like=True):
    """The number of pages a partition may have fetched in total: its ``version`` is the epoch in which the partition
    was opened, and the number of changes since."""

    version: tuple[int, int]
    total: int


class Wish(Struct, frozen=True, array_like=True, tag=1):
    """A partition's message to the coordinator: the greatest term it knows, its allowance, and how many more pages it
    could fetch now."""

    term: int
    has: Allowance
    more: int = 0


class Grant(Struct, frozen=True, array_like=True, tag=2):
    """The coordinator's message to a partition: its allowance, and whether pages are left to grant."""

    term: int
    gives: Allowance
    left: bool


class Recall(Struct, frozen=True, array_like=True, tag=3):
    """The message with which the coordinator of this term requests a wish."""

    term: int


class CrawlQuota:
    """Grants at most ``limit`` pages to ``partitions`` partitions. If they have already fetched more, nothing is
    granted."""

    def __init__(self, term: int, limit: int, partitions: int) -> None:
        """``term`` is greater than that of each earlier coordinator."""
        self.term = term
        self._limit = limit
        self._partitions = partitions
        self.allowances: dict[int, Allowance] = {}
        self._wishes: dict[int, Wish] = {}  # the last wish of each partition

    @property
    def left(self) -> int:
        """The number of pages that have not been granted."""
        return max(0, self._limit - sum(each.total for each in self.allowances.values()))

    @property
    def unheard(self) -> list[int]:
        """The partitions that have not sent a wish."""
        return [number for number in range(self._partitions) if number not in self._wishes]

    @property
    def granting(self) -> list[int]:
        """The partitions that would get more if their last wishes were processed again."""
        held, could = self.allowances, not self.unheard and self.left > 0
        return [number for number, wish in self._wishes.items() if could and wish.more and wish.has == held.get(number)]

    def hear(self, partition: int, wish: Wish | None = None) -> Grant | Recall:
        """Process a partition's wish; if it is None, process the last wish again. Returns the answer."""
        if wish is not None and wish.term != self.term:
            return Recall(self.term)
        wish = self._wishes[partition] = wish or self._wishes[partition]
        held = self.allowances.get(partition, wish.has)
        if wish.has.version > held.version:  # the partition gave pages back, or was opened again
            held = wish.has
        self.allowances[partition] = held
        if wish.has == held and wish.more > 0 and not self.unheard:
            block = min(wish.more, self._block())
            if block:
                epoch, changes = held.version
                held = self.allowances[partition] = Allowance((epoch, changes + 1), held.total + block)
        return Grant(self.term, held, self.left > 0)

    def _block(self) -> int:
        """Return the number of pages to grant at a time: an equal share of those left for each partition that waits for
        some."""
        return -(-self.left // max(1, len(self.granting)))


class PartitionQuota:
    """The allowance of one partition, as known to the partition."""

    def __init__(self, epoch: int, fetched: int) -> None:
        """``epoch``: the epoch in which the partition was opened. ``fetched``: the number of pages fetched before
        that."""
        self.allowance = Allowance((epoch, 0), fetched)
        self._term = 0  # the greatest term known
        self._answered = True  # True if the last wish for more pages has been answered
        self.bank_is_empty = False  # True if no pages were left to grant at the last answer

    @property
    def total(self) -> int:
        """The number of pages the partition may have fetched in total."""
        return self.allowance.total

    def recall(self, recall: Recall) -> None:
        """Process a request for a wish. The partition then sends one, whatever the term of the request."""
        self._term = max(self._term, recall.term)

    def wish(self, more: int) -> Wish:
        """Return the message for the coordinator when ``more`` pages could be fetched now."""
        if more:
            self._answered = False
        return Wish(self._term, self.allowance, more)

    def hear(self, grant: Grant) -> bool:
        """Process an answer. Returns False, and ignores the answer, if it is from another term, or its allowance is
        older than the partition's."""
        if grant.term != self._term or grant.gives.version < self.allowance.version:
            return False  # the coordinator has not yet received what was given back
        self._answered = True
        self.bank_is_empty = not grant.left
        # If the versions are equal, the coordinator's allowance counts: it granted pages while this partition gave some
        # back.
        self.allowance = grant.gives
        return True

    def give_back(self, spent: int) -> bool:
        """Reduce the allowance to ``spent`` pages: those fetched, in flight or needed soon. Returns True if the
        allowance changed; the caller must then inform the coordinator. Does nothing while a request for more pages is
        unanswered, because a grant may be on its way."""
        if not self._answered or spent >= self.total:
            return False
        epoch, changes = self.allowance.version
        self.allowance = Allowance((epoch, changes + 1), spent)
        return True
