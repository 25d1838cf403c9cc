"""One process's part in enforcing the page limit of a whole crawl. It keeps the allowance of each partition that is
open here and, if partition 0 is open here, the coordinator (``crawler.job.partition.quota``).

A partition asks for more pages before its allowance is spent, and gives back pages for which it has no URLs: after a
while, or at once if the coordinator has no pages left. Notes may be lost, so each is repeated until it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import starmap

from msgspec.structs import replace

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Backoff, together
from crawler.job.partition.notes import encode_note
from crawler.job.partition.quota import CrawlQuota, Grant, PartitionQuota, Recall, Wish

BANK = 0  # the partition whose owner coordinates the quota
LOOK = 0.4  # seconds between two checks of the partitions' needs while no note arrives
SOON = 0.1  # ... and from a note to the next check
AGAIN = 2.0  # seconds after which an unanswered note is repeated
_LASTS = 3.0  # seconds for which requested pages last at a partition's pace; it requests more when half are spent ...
_LEAST, _MOST = 16, 2**16  # ... minimum and maximum number of pages requested
_UNLIMITED = 2**62  # pages; so that a coordinator without a limit answers workers that still have an earlier one
_IDLE = 1.0  # seconds without a URL after which a partition gives back its remaining pages

Tell = Callable[[OpenPartition, int, bytes], Awaitable[None]]
Told = tuple[OpenPartition, int, Wish | Grant | Recall]  # the sender, the target and the note


class _Account:
    """The allowance of a partition that is open here."""

    def __init__(self, partition: OpenPartition) -> None:
        self.partition = partition
        self.quota = PartitionQuota(partition.epoch, partition.job.counters.pages_fetched)
        self._told: Wish | None = None  # the last wish sent
        self._told_at = 0.0
        self._is_answered = False  # True once the last wish is answered
        self._busy_at = -math.inf  # when the partition last had a URL
        self._pace = 0.0  # pages a second
        self._paced = (-math.inf, 0)  # when the pace was measured, and the pages fetched by then

    def hear(self, said: Grant | Recall) -> None:
        """Process a note from the coordinator."""
        if isinstance(said, Recall):
            self.quota.recall(said)
            self._told = None
        elif self.quota.hear(said):
            if self._told is not None and self._told.has != said.gives:
                self._told = replace(self._told, has=said.gives, more=0)
            self._is_answered = True
            self.partition.run.wake()

    def look(self, now: float) -> Wish | None:
        """Return the wish to send to the coordinator now; None if there is none."""
        counters, under_way = self.partition.job.counters, len(self.partition.run.visitor.under_way)
        if now >= self._paced[0] + 1.0:
            self._pace = max((counters.pages_fetched - self._paced[1]) / (now - self._paced[0]), self._pace / 2)
            self._paced = now, counters.pages_fetched
        if counters.pending:
            self._busy_at = now
        ahead, free = self._ahead(under_way), self.quota.total - counters.pages_fetched - under_way
        if free > ahead and (self.quota.bank_is_empty or now >= self._busy_at + _IDLE):
            self.quota.give_back(counters.pages_fetched + under_way + ahead)
        more = ahead - free if 2 * free < ahead else 0
        if not self._must_tell(more, now):
            return None
        before, self._told, self._told_at = self._told, self.quota.wish(more), now
        is_same = before is not None and before.has == self._told.has and bool(before.more) == bool(more)
        self._is_answered = self._is_answered and is_same
        return self._told

    def _ahead(self, under_way: int) -> int:
        """Return how many pages the partition will soon need in addition to those under way."""
        pending = self.partition.job.counters.pending
        if self.partition.run.life.reason is not None or not pending:
            return 0
        ahead = min(max(_LEAST, round(_LASTS * self._pace)), _MOST)
        return min(ahead, max(0, pending - under_way)) if self.quota.bank_is_empty else ahead

    def _must_tell(self, more: int, now: float) -> bool:
        # A coordinator without a limit does not recall wishes, so a partition that waits for pages repeats its wish.
        if self._told is None or ((more or not self._is_answered) and now >= self._told_at + AGAIN):
            return True
        return self._told.has != self.quota.allowance or (self._is_answered and bool(more) != bool(self._told.more))

    @property
    def is_settled(self) -> bool:
        """True if the coordinator and the partition agree that it fetches no more pages."""
        counters = self.partition.job.counters
        if self._told is None or not self._is_answered or self.quota.total > counters.pages_fetched:
            return False
        return self.quota.bank_is_empty or not counters.pending


class _Till:
    """The coordinator, and the partition whose owner runs it."""

    def __init__(self, partition: OpenPartition, limit: int, partitions: int) -> None:
        self.partition = partition
        self.bank = CrawlQuota(partition.epoch, limit, partitions)
        self._partitions = partitions
        self.new: dict[int, Wish] = {}  # by partition: its last wish since the previous look
        self._called_at = -math.inf
        self._was_empty = False

    @property
    def is_settled(self) -> bool:
        """True if no grant is pending."""
        return not self.new and not self.bank.unheard and not self.bank.granting

    def look(self, now: float) -> Iterator[tuple[int, Grant | Recall]]:
        """Yield each note to send now, with the number of its target partition."""
        bank, new, self.new = self.bank, self.new, {}
        answers = {number: bank.hear(number, new.get(number)) for number in sorted({*new, *bank.granting})}
        is_empty = not bank.unheard and not bank.left
        if is_empty and not self._was_empty:  # ask all partitions to give back the pages they do not need
            answers = {number: bank.hear(number) for number in range(self._partitions)} | answers
        self._was_empty = is_empty
        yield from answers.items()
        if bank.unheard and now >= self._called_at + AGAIN:
            self._called_at = now
            yield from ((number, Recall(bank.term)) for number in bank.unheard)


class QuotaCoordinator:
    """Handles the quota in one process. Without a ``limit``, does nothing until a note from another process arrives."""

    def __init__(
        self,
        limit: int | None,
        partitions: int,
        opened: Mapping[int, OpenPartition],
        tell: Tell,
        may_grant: Callable[[], bool],
    ) -> None:
        """``opened``: the partitions that are open here. ``tell`` sends notes. ``may_grant()`` returns False while
        another process may have become the coordinator."""
        self._limit = limit
        self._partitions = partitions
        self._opened = opened
        self._tell = tell
        self._may_grant = may_grant
        self._accounts: dict[int, _Account] = {}
        self._till: _Till | None = None
        self._has_heard = asyncio.Event()

    def allowance(self, number: int) -> int | None:
        """Return how many pages the partition may fetch in total, including those already fetched; None if there is no
        limit."""
        if self._limit is None:
            return None
        account = self._accounts.get(number)
        return 0 if account is None else account.quota.total

    def is_settled(self, partition: OpenPartition) -> bool:
        """Return True if the partition has no grants or returned pages outstanding."""
        if self._limit is None:
            return True
        account, till = self._accounts.get(partition.number), self._till
        if account is None or account.partition is not partition or not account.is_settled:
            return False
        return partition.number != BANK or (till is not None and till.partition is partition and till.is_settled)

    def heard(self, number: int, sender: int, said: Wish | Grant | Recall) -> None:
        """Process a note that the open partition with this number received."""
        self._has_heard.set()
        self._limit = self._limit or _UNLIMITED
        account = self._accounts.get(number)
        if isinstance(said, Wish):
            if self._till is not None and number == BANK:
                self._till.new[sender] = said
        elif account is not None and self._opened.get(number) is account.partition:
            account.hear(said)

    async def keep(self) -> None:
        """Request, grant and give back pages until cancelled."""
        backoff = Backoff()
        if self._limit is None:
            await self._has_heard.wait()
        while self._limit is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._has_heard.wait()
                    await asyncio.sleep(SOON)
            self._has_heard.clear()
            try:
                await together(starmap(self._say, list(self._look(self._limit, asyncio.get_running_loop().time()))))
            except CarrierError:
                await backoff.rest()
            else:
                backoff.reset()

    async def _say(self, partition: OpenPartition, target: int, said: Wish | Grant | Recall) -> None:
        if target in self._opened:
            self.heard(target, partition.number, said)
        else:
            await self._tell(partition, target, encode_note(said))

    def _look(self, limit: int, now: float) -> Iterator[Told]:
        """Yield the notes that the partitions open here, and the coordinator if it is here, have to send."""
        open_now = {number: each for number, each in self._opened.items() if not (each.is_closing or each.is_rising)}
        for number, partition in open_now.items():
            account = self._accounts.get(number)
            if account is None or account.partition is not partition:
                account = self._accounts[number] = _Account(partition)
                partition.run.wake()
            wish = account.look(now)
            if wish is not None:
                yield partition, BANK, wish
        bank = open_now.get(BANK)
        if bank is None:
            self._till = None
            return
        if self._till is None or self._till.partition is not bank:
            self._till = _Till(bank, limit, self._partitions)
        if self._may_grant():
            yield from ((bank, number, said) for number, said in self._till.look(now))
