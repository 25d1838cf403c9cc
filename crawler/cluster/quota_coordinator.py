"""Enforces the page limit of a whole crawl in one process: keeps the allowance of each partition that is open here and,
where partition 0 is open, the coordinator (``crawler.job.partition.quota``).

A partition asks for more before its allowance is spent, and gives back pages for which it has no URLs. Notes may be
lost, so each is repeated until it is answered; a coordinator that has just started requests the wishes it does not
know.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial

from crawler.base.carrier.verbs import CarrierError
from crawler.base.kv import Batch, Family
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Backoff
from crawler.job.partition.link_batch_codec import Note
from crawler.job.partition.notes import Recall, encode_note
from crawler.job.partition.quota import (
    Allowance,
    CrawlQuota,
    Grant,
    PartitionQuota,
    Wish,
    decode_allowance,
    encode_allowance,
)

BANK = 0  # the partition that stores the coordinator's state
LOOK = 0.25  # seconds between two checks of the partitions' needs
AGAIN = 2.0  # seconds after which an unanswered note is repeated
_LASTS = 10.0  # seconds at its pace for which a partition requests pages; it requests more when half are spent ...
_LEAST, _MOST = 16, 2**16  # ... but this many at least and at most
_IDLE = 3.0  # seconds without a URL after which a partition gives back its remaining pages ...
_NEEDED = 0.5  # ... and if the coordinator has nothing left
_OWN = b"allowance"  # the META key of a partition's own allowance
_GRANTED = b"allowance/"  # ... and the prefix of the coordinator's keys, followed by the partition number

Tell = Callable[[OpenPartition, int, bytes], Awaitable[None]]
Step = Callable[[float], Awaitable[None]]  # takes the event loop's time


class _Account:
    """The allowance of a partition that is open here."""

    def __init__(self, partition: OpenPartition) -> None:
        """Load the stored allowance. Raises OSError, JournalError."""
        self.partition = partition
        stored = partition.job.store.get(Family.META, _OWN)
        self.quota = PartitionQuota(Allowance() if stored is None else decode_allowance(stored))
        self.grant: Grant | None = None  # the last grant, until it is processed
        self.told: Wish | None = None  # the last wish
        self.told_at = 0.0
        self.is_answered = False  # the last wish
        self.idle_since: float | None = None  # when it ran out of URLs
        self._pace = 0.0  # pages a second
        self._paced = (-math.inf, 0)  # when that was measured, and the pages fetched by then

    def measure(self, now: float) -> None:
        """Measure the pace of the partition, each second or later."""
        (at, before), fetched = self._paced, self.partition.job.counters.pages_fetched
        if now >= at + 1.0:
            self._pace = max((fetched - before) / (now - at), self._pace / 2)
            self._paced = now, fetched

    def more(self) -> int:
        """Return how many pages beyond its allowance to request now."""
        counters, run = self.partition.job.counters, self.partition.run
        if run.life.reason is not None or not counters.pending:
            return 0
        ahead = min(max(_LEAST, round(_LASTS * self._pace)), _MOST)
        left = self.quota.total - counters.pages_fetched
        return ahead if left < len(run.under_way) + ahead // 2 else 0

    def is_over_full(self, now: float) -> bool:
        """Return True if pages are allowed for which there have been no URLs for a while."""
        counters = self.partition.job.counters
        if counters.pending:
            self.idle_since = None
            return False
        if self.idle_since is None:
            self.idle_since = now
        idle = _NEEDED if self.quota.bank_is_empty else _IDLE
        return now >= self.idle_since + idle and self.quota.total > counters.pages_fetched

    def wants_to_tell(self, now: float) -> bool:
        """Return True if a wish should be sent to the coordinator now."""
        if self.told is None or (not self.is_answered and now >= self.told_at + AGAIN):
            return True
        known = self.told.has == self.quota.allowance
        return not known or (self.is_answered and bool(self.more()) != bool(self.told.more))

    @property
    def is_settled(self) -> bool:
        """True if the coordinator and the partition agree that it fetches no more pages."""
        fetched = self.partition.job.counters.pages_fetched
        if self.told is None or not self.is_answered or self.quota.total > fetched:
            return False
        return self.quota.bank_is_empty or not self.partition.job.counters.pending


class _Till:
    """The coordinator and the partition whose job stores its state."""

    def __init__(self, partition: OpenPartition, limit: int, partitions: int) -> None:
        """Load the stored grants. Raises OSError, JournalError."""
        self.partition = partition
        end = _GRANTED + b"\xff"
        rows = partition.job.store.rows(Family.META, _GRANTED, end)
        stored = {int(key.removeprefix(_GRANTED)): decode_allowance(value) for key, value in rows}
        self.bank = CrawlQuota(limit, partitions, stored)
        self.new: dict[int, Wish] = {}  # by partition: its last wish since the previous step
        self.called_at = float("-inf")

    @property
    def is_settled(self) -> bool:
        """True if no grant is pending."""
        return not self.new and not self.bank.unheard and not self.bank.granting


class QuotaCoordinator:
    """Handles the quota in one process. Does nothing without a ``limit``."""

    def __init__(
        self, limit: int | None, partitions: int, opened: Mapping[int, OpenPartition], tell: Tell, room: Backoff
    ) -> None:
        """``opened``: the partitions that are open here. ``tell`` sends notes. ``room`` paces retries."""
        self._limit = limit
        self._partitions = partitions
        self._opened = opened
        self._tell = tell
        self._backoff = room
        self._accounts: dict[int, _Account] = {}
        self._till: _Till | None = None

    def allowance(self, number: int) -> int | None:
        """Return how many pages the partition may have fetched in total; None: there is no limit."""
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

    def heard(self, partition: OpenPartition, note: Note, said: Wish | Grant | Recall) -> None:
        """Process a note that the partition received."""
        till, account = self._till, self._accounts.get(partition.number)
        if isinstance(said, Wish) and till is not None and till.partition is partition:
            till.new[note.sender] = said
        elif isinstance(said, Grant) and account is not None and account.partition is partition:
            account.grant = said
        elif isinstance(said, Recall) and account is not None:
            account.told = None

    async def keep(self) -> None:
        """Request, grant and give back until cancelled. Raises OSError, JournalError."""
        if self._limit is None:
            return
        working = dict[object, asyncio.Task[None]]()
        try:
            while True:
                await asyncio.sleep(LOOK)
                for each in [each for each, task in working.items() if task.done()]:
                    working.pop(each).result()
                # Each in its own task, because it may wait for the disk and for the crawl's store.
                for each, step in self._steps(self._limit):
                    if each not in working:
                        working[each] = asyncio.create_task(self._take(step))
        finally:
            for task in working.values():
                task.cancel()
            await asyncio.gather(*working.values(), return_exceptions=True)

    async def _take(self, step: Step) -> None:
        try:
            await step(asyncio.get_running_loop().time())
        except CarrierError:
            await self._backoff.rest()
        else:
            self._backoff.reset()

    def _steps(self, limit: int) -> Iterator[tuple[object, Step]]:
        """Yield each open partition, and the coordinator if it is here, with its next step."""
        for partition in self._opened.values():
            if not partition.is_closing and not partition.is_rising:
                yield partition, partial(self._keep_account, partition)
        bank = self._opened.get(BANK)
        if bank is None or bank.is_closing or bank.is_rising:
            self._till = None
            return
        if self._till is None or self._till.partition is not bank:
            self._till = _Till(bank, limit, self._partitions)
        yield self._till, partial(self._keep_bank, self._till)

    # -- a partition -------------------------------------------------------------------------------------------

    async def _keep_account(self, partition: OpenPartition, now: float) -> None:
        account = self._accounts.get(partition.number)
        if account is None or account.partition is not partition:
            account = self._accounts[partition.number] = _Account(partition)
            is_new = account.quota.begin(partition.job.counters.pages_fetched)
            if is_new and not await self._store(partition, {_OWN: account.quota.allowance}, durable=True):
                return
            partition.run.wake()
        account.measure(now)
        quota = account.quota
        if (grant := account.grant) is not None:
            account.grant = None
            account.is_answered = grant.gives.version >= quota.allowance.version
            if quota.hear(grant):
                if not await self._store(partition, {_OWN: quota.allowance}):
                    return
                partition.run.wake()
        gives_back = account.is_over_full(now) and quota.give_back(partition.job.counters.pages_fetched)
        if gives_back and not await self._store(partition, {_OWN: quota.allowance}, durable=True):
            return  # it closes with its previous allowance
        if account.wants_to_tell(now):
            account.told = wish = quota.wish(account.more())
            account.told_at, account.is_answered = now, False
            if partition.number == BANK and self._till is not None and self._till.partition is partition:
                self._till.new[BANK] = wish
            else:
                await self._tell(partition, BANK, encode_note(wish))

    # -- the coordinator ----------------------------------------------------------------------------------------------

    async def _keep_bank(self, till: _Till, now: float) -> None:
        bank = till.bank
        new, till.new = till.new, {}
        answers, changed = dict[int, Grant](), dict[bytes, Allowance]()
        for number in sorted({*new, *bank.granting}):
            answers[number], is_new = bank.hear(number, new.get(number))
            if is_new:
                changed[_GRANTED + b"%d" % number] = answers[number].gives
        if changed and not await self._store(till.partition, changed, durable=True):
            return  # it closes: partitions ask its next owner again
        for number, grant in answers.items():
            account = self._open_account(number)
            if account is not None:
                account.grant = grant
            else:
                await self._tell(till.partition, number, encode_note(grant))
        if bank.unheard and now >= till.called_at + AGAIN:
            till.called_at = now
            for number in bank.unheard:
                account = self._open_account(number)
                if account is None:
                    await self._tell(till.partition, number, encode_note(Recall()))
                else:
                    account.told = None

    def _open_account(self, number: int) -> _Account | None:
        """Return the account of a partition that is open here; None if it is not, or no longer."""
        account = self._accounts.get(number)
        return account if account is not None and self._opened.get(number) is account.partition else None

    async def _store(self, partition: OpenPartition, rows: Mapping[bytes, Allowance], *, durable: bool = False) -> bool:
        """Write rows to the job of the partition. ``durable``: others may rely on the rows, which survive the loss of
        its disk. Returns False if the partition is closing: then the rows must not be announced. Raises OSError."""

        def put(batch: Batch) -> None:
            for key, allowance in rows.items():
                batch.put(Family.META, key, encode_allowance(allowance))

        job = partition.job
        async with partition.writing:
            if not await partition.may_write():
                return False
            job.change_hosts(put)
            if durable:
                if not await partition.may_write():
                    return False
                await job.sync()
            commits = job.writer.commits
        if not durable:
            return True
        await job.promises.reach(commits)
        return not partition.is_closing
