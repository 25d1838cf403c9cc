"""Detects the end of the crawl in one process. The process answers end rounds for its partitions; one process of the
crawl, the holder of the claim ``crawl``, coordinates the rounds (``crawler.job.partition.end_rounds`` explains why this
is correct).

While this process has work left, it reads no announcements, because the crawl cannot be over yet.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, START, CarrierError, decoded, encoded
from crawler.cluster.claims import Ownership, name_of, names_of
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Reach
from crawler.job.partition.end_rounds import (
    Announcement,
    EndRounds,
    Look,
    Status,
)

END = "end"  # the name of the announcement's value
STATUS = "status"  # the name of a partition's value
SOON, LATE = 0.2, 2.0  # minimum and maximum seconds between two checks ...
BUSY = 0.5  # ... and seconds between them while there is work left here
_SLOWER = 1.5  # factor by which the pause grows while nothing changes
_TOLD_AGAIN = 2.0  # seconds after which a value is put again, because the carrier may have lost it


class EndWatch:
    """Watches for the end of the crawl in the background."""

    def __init__(
        self,
        reach: Reach,
        ownership: Ownership,
        partitions: int,
        ours: Callable[[], Mapping[int, OpenPartition]],
        ended: Callable[[bool], None],
    ) -> None:
        """``ours()`` returns the partitions that are open here. ``ended`` is called when the crawl is over, with True
        if its page limit left URLs unfetched."""
        self._reach = reach
        self._ownership = ownership
        self._partitions = partitions
        self._ours = ours
        self._ended = ended
        self._rounds: EndRounds | None = None  # set while this process coordinates
        self._answers: dict[int, tuple[Status, float]] = {}  # by partition: the last status, and when it was put
        self._telling = asyncio.Lock()
        self._words = 0  # number of statuses put so far
        self._before: Announcement | None = None  # the last announcement that was read
        self._has_looked = False
        self._is_known = False  # True once the crawl is known to be over

    async def watch(self) -> None:
        """Watch until the crawl is over or the task is cancelled. Once the end is known, this process starts no further
        round, which would overwrite the announcement before others have read it."""
        pause = SOON
        while not self._is_known:
            await asyncio.sleep(pause)
            if not all(ours.is_at_rest for ours in self._ours().values()):
                pause = BUSY
                continue
            try:
                pause = SOON if await self.look() else min(LATE, _SLOWER * pause)
            except CarrierError:
                pause = LATE

    async def look(self) -> bool:
        """Read the announcement, answer it, and coordinate if this process holds the claim ``crawl``. Returns True if
        anything changed. Raises CarrierError."""
        told = await self._told()
        changed = told != self._before
        first, self._before, self._has_looked = not self._has_looked, told, True
        if told is not None:
            if self._is_over(told, news=changed and not first):
                self._end(told)
            if self._is_known:
                return True
            await self._look_at_streams()
            await self._answer(told)
        return await self._coordinate(told) or changed

    def _end(self, told: Announcement) -> None:
        self._is_known = True
        self._ended(told.spent)

    async def _told(self) -> Announcement | None:
        (value,) = await self._reach.call(self._reach.carrier.get([CRAWL], END))
        return decoded(value, Announcement)

    def _is_over(self, told: Announcement, *, news: bool) -> bool:
        """Return True if the announcement ends the partitions open here. A process without partitions trusts only
        announcements that appear while it runs: one found at startup may belong to an earlier run."""
        ours = self._ours()
        if not ours:
            return news and bool(told.ended)
        return any(told.ends(number, each.epoch) for number, each in ours.items())

    async def _look_at_streams(self) -> None:
        """Mark each stream as read that was trimmed to its end before this process had read it: no entry is left to
        read."""
        carrier, call = self._reach.carrier, self._reach.call
        ours = {name_of(number): each for number, each in self._ours().items()}
        lasts = await call(carrier.last(list(ours))) if ours else []
        for (name, each), last in zip(ours.items(), lasts, strict=True):
            before = each.read_to
            if last not in (START, before) and not await call(carrier.read({name: before}, 1, 0.0)):
                each.read_to = last if each.read_to == before else each.read_to

    async def _answer(self, told: Announcement) -> None:
        now, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        for number, ours in list(self._ours().items()):
            if self._ours().get(number) is not ours:
                continue  # the partition was closed while the previous status was being put
            name = name_of(number)
            at_rest, is_sent = ours.is_at_rest, ours.is_sent
            status = Status(told.round, ours.epoch, ours.version, at_rest, is_sent, ours.read_to, ours.is_spent)
            before, at = self._answers.get(number, (None, 0.0))
            # Only the owner may answer: if this process was stopped for long, another one may own the partition and be
            # busy.
            if (status == before and now - at < _TOLD_AGAIN) or not self._ownership.may_request(name):
                continue
            self._answers[number] = (status, -math.inf)
            await self._tell(number, status)
            self._answers[number] = (status, loop.time())

    async def _tell(self, number: int, status: Status) -> None:
        """Put the status on the carrier, which keeps the latest status of an epoch even if earlier ones arrive after
        it. Raises CarrierError."""
        async with self._telling:
            self._words += 1
            order = status.epoch, self._words
            await self._reach.call(self._reach.carrier.put(name_of(number), {STATUS: encoded(status)}, order))

    async def _coordinate(self, told: Announcement | None) -> bool:
        """Take the next step of the rounds. Returns True if a step was taken."""
        carrier, call = self._reach.carrier, self._reach.call
        if not self._ownership.may_request(CRAWL):
            self._rounds = None
            self._ownership.forget(CRAWL)
            if await self._ownership.claim(CRAWL, 0) is None:
                return False
            if await self._told() != told:
                return True  # the previous coordinator has announced something since then, perhaps the end
        statuses = await self._statuses()
        if self._rounds is None and told is not None and told.holds(statuses):
            return False  # leave the announcement for processes that have not read it yet
        rounds = self._rounds = self._rounds or EndRounds(self._partitions, entropy.random_bytes(8).hex())
        lasts: Sequence[str] = await call(carrier.last(names_of(range(self._partitions))))
        look = rounds.look(statuses, lasts)
        announcement = rounds.announcement
        if announcement != told:
            await call(carrier.put(CRAWL, {END: encoded(announcement)}))
        return look in (Look.AGAIN, Look.ENDED)

    async def _statuses(self) -> list[Status | None]:
        names = names_of(range(self._partitions))
        return [decoded(value, Status) for value in await self._reach.call(self._reach.carrier.get(names, STATUS))]
