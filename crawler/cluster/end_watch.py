"""The end of the crawl, as one process sees it. It answers the rounds for its partitions, and one process of the crawl,
the holder of the claim ``crawl``, coordinates them (``crawler.job.partition.end_rounds`` says why that is right).

While anything is left to do here, nothing is asked: the crawl cannot be over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, START, CarrierError
from crawler.cluster.claims import Ownership, name_of, names_of
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Reach
from crawler.job.partition.end_rounds import (
    Announcement,
    EndRounds,
    Look,
    Status,
    decode_announcement,
    decode_status,
    encode,
)

END = "end"  # the value of the announcement
STATUS = "status"  # the value of a partition
SOON, LATE = 0.2, 2.0  # seconds between two looks
_SLOWER = 1.5  # times the pause before, while nothing changes
_TOLD_AGAIN = 2.0  # seconds after which a value is put once more: the carrier may have lost it


class EndWatch:
    """Watches for the end beside the work of one process."""

    def __init__(
        self,
        reach: Reach,
        ownership: Ownership,
        partitions: int,
        ours: Callable[[], Mapping[int, OpenPartition]],
        ended: Callable[[bool], None],
    ) -> None:
        """``ours()``: the partitions that are open here. ``ended`` is called when the crawl is over, and told whether a
        limit on its pages left URLs."""
        self._reach = reach
        self._ownership = ownership
        self._partitions = partitions
        self._ours = ours
        self._ended = ended
        self._rounds: EndRounds | None = None  # of a coordinator
        self._answers: dict[int, tuple[Status, float]] = {}  # what was told, or may have been, and when
        self._telling = asyncio.Lock()
        self._words = 0  # of what was told
        self._before: Announcement | None = None  # the last announcement that was read
        self._has_looked = False
        self._is_known = False  # that the crawl is over

    async def watch(self) -> None:
        """Look until the crawl is over, or until cancelled. Who knows that it is asks for no round any more: that would
        take the place of the announcement, which others may not have read."""
        pause = SOON
        while not self._is_known:
            await asyncio.sleep(pause)
            if not all(ours.is_at_rest for ours in self._ours().values()):
                pause = SOON
                continue
            try:
                pause = SOON if await self.look() else min(LATE, _SLOWER * pause)
            except CarrierError:
                pause = LATE

    async def look(self) -> bool:
        """Read the announcement, answer it, and coordinate if that is ours to do. Returns whether anything changed.
        Raises CarrierError."""
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
        return decode_announcement(value)

    def _is_over(self, told: Announcement, *, news: bool) -> bool:
        """Whether the announcement ends what is open here. A process without partitions believes what is new: what it
        found when it began may be of an earlier run."""
        ours = self._ours()
        if not ours:
            return news and bool(told.ended)
        return any(told.ends(number, each.epoch) for number, each in ours.items())

    async def _look_at_streams(self) -> None:
        """Of a stream that was trimmed to its end before this process read it, nothing says that it is read."""
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
                continue  # it was closed while the one before it was told
            name = name_of(number)
            at_rest, is_sent = ours.is_at_rest, ours.is_sent
            status = Status(told.round, ours.epoch, ours.version, at_rest, is_sent, ours.read_to, ours.is_spent)
            before, at = self._answers.get(number, (None, 0.0))
            # Only an owner may answer: one that was stopped for long may have been replaced by one that is busy.
            if (status == before and now - at < _TOLD_AGAIN) or not self._ownership.may_request(name):
                continue
            self._answers[number] = (status, -math.inf)
            await self._tell(number, status)
            self._answers[number] = (status, loop.time())

    async def _tell(self, number: int, status: Status) -> None:
        """What is told last of an epoch counts, also if what was told before arrives later. Raises CarrierError."""
        async with self._telling:
            self._words += 1
            order = status.epoch, self._words
            await self._reach.call(self._reach.carrier.put(name_of(number), {STATUS: encode(status)}, order))

    async def _coordinate(self, told: Announcement | None) -> bool:
        """Take the next step of the rounds. Returns whether there was one."""
        carrier, call = self._reach.carrier, self._reach.call
        if not self._ownership.may_request(CRAWL):
            self._rounds = None
            self._ownership.forget(CRAWL)
            if await self._ownership.claim(CRAWL, 0) is None:
                return False
            if await self._told() != told:
                return True  # whoever had the claim has announced something since: it may be the end
        statuses = await self._statuses()
        if self._rounds is None and told is not None and told.holds(statuses):
            return False  # who has not read it yet is to find it
        rounds = self._rounds = self._rounds or EndRounds(self._partitions, entropy.random_bytes(8).hex())
        lasts: Sequence[str] = await call(carrier.last(names_of(range(self._partitions))))
        look = rounds.look(statuses, lasts)
        announcement = rounds.announcement
        if announcement != told:
            await call(carrier.put(CRAWL, {END: encode(announcement)}))
        return look in (Look.AGAIN, Look.ENDED)

    async def _statuses(self) -> list[Status | None]:
        names = names_of(range(self._partitions))
        return [decode_status(value) for value in await self._reach.call(self._reach.carrier.get(names, STATUS))]
