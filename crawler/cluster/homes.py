"""Where each partition is at home, as one process knows it, and where those are to begin that have none yet.

The process that has partition 0 open decides where one begins. It notes the directory in its own before it tells
anybody, so that no partition ever begins in a second one: whatever the carrier forgets, and whichever machines are away
meanwhile.

A partition that comes to another home does so in the epoch of its claim, and the greatest epoch counts. Everybody who
is told of a home notes it before anything else, and tells it again when the carrier has forgotten it: the machine of
partition 0 may be gone with its notes. So a process that was away, however long, learns that its partitions are
elsewhere before it opens them: if nobody else is there to say so, nobody else can have them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from crawler.cluster.member_options import Crawl, MemberOptions
from crawler.cluster.ownership import ASKED
from crawler.cluster.replica_slots import ReplicaSlots
from crawler.cluster.seats import SEEDED, SPARE, Seated, Seats, begins
from crawler.job.directory import holds_job
from crawler.job.home_register import Home, add_homes, read_homes

LOOKS = 3.0  # seconds of looks in which others say where partitions are, before one opens that was here before


class Homes:
    """The homes of the partitions of a crawl."""

    def __init__(self, crawl: Crawl, seats: Seats, options: MemberOptions, slots: ReplicaSlots) -> None:
        self._crawl = crawl
        self.seats = seats
        self._options = options
        self._noted: dict[int, Home] | None = None
        self._looked = -math.inf  # when all was last read
        self._since = math.inf  # since when looks follow each other, and the carrier has forgotten nothing
        self._others = False  # whether other homes are known
        self.known: list[Home | None] = [None] * crawl.partitions
        self._before: dict[int, str] = {}  # the former homes of partitions that have moved
        self.is_left_out = False  # all partitions are at home in other directories, for good
        self.slots = slots
        self.busy: set[int] = set()  # partitions whose directories are being moved here

    @property
    def ids(self) -> Sequence[str | None]:
        """The home of each partition; None: it is not known, or it has none."""
        return [None if home is None else home.id for home in self.known]

    @property
    def elsewhere(self) -> set[int]:
        """The numbers of the partitions that are at home in other directories."""
        return {number for number, home in enumerate(self.ids) if home not in (None, self._crawl.home)}

    @property
    def looks(self) -> float:
        """For how many seconds this process has looked without a break at a carrier that forgot nothing."""
        return max(0.0, self._options.boottime() - self._since)

    def is_here(self, number: int) -> bool:
        """Whether the partition is at home in the directory of this process."""
        home = self.known[number]
        return home is not None and home.id == self._crawl.home

    async def look(self, alive: Mapping[str, Seated], *, decides: bool) -> Sequence[str | None]:
        """The home of each partition, as ``ids``. ``decides``: this process has partition 0 open, and says where those
        are to begin that have none. Raises CarrierError, JobError, OSError."""
        began = self._options.boottime()
        told = await self.seats.homes()
        noted = await self._read()
        for number, each in enumerate(told):
            self._know(number, self._home(number, noted, each))
        if decides and self._may_decide():
            begun = begins(alive, self.ids)
            self.known = [
                Home(new) if home is None and new is not None else home
                for home, new in zip(self.known, begun, strict=True)
            ]
        known = {number: home for number, home in enumerate(self.known) if home is not None}
        mine = {number for number, home in known.items() if home.id == self._crawl.home}
        await self._note(known)
        for number, home in known.items():
            if _is_news(told[number], home, decides=decides):
                await self.seats.settle(number, home)
        self._note_look(began, any(told[number] is None for number in mine if holds_job(self._crawl.partition(number))))
        self._others = len(mine) < len(known) or any(each.home != self._crawl.home for each in alive.values())
        self._leave_or_return(len(alive), bool(mine))
        return self.ids

    async def learn(self, number: int) -> None:
        """Look where the partition is at home, whose claim this process holds: nobody else can change that now. Raises
        CarrierError, JobError, OSError."""
        told = await self.seats.home(number)
        home = self._home(number, await self._read(), told)
        if home is not None and home != self.known[number]:
            await self._learn(number, home)

    def is_sure(self, number: int) -> bool:
        """Whether others, who may know better, have had time to say that the partition, which was here, is elsewhere
        now."""
        can_err = self._crawl.replicas > 0 and self._others and holds_job(self._crawl.partition(number))
        return not can_err or self.looks >= LOOKS

    def is_missing(self, number: int) -> bool:
        """Whether the partition came here from another home, and its directory is not here yet."""
        home = self.known[number]
        return home is not None and home.epoch > 0 and not self._crawl.partition(number).is_dir()

    def where_before(self, number: int) -> str:
        """Where people find the former home of a partition that has moved."""
        return self.seats.where(self._before.get(number, ""))

    async def settle(self, number: int, home: Home) -> None:
        """The partition, whose claim this process holds, is at home there from now on. That is durable here when others
        are told. Raises CarrierError, JobError, OSError."""
        await self._learn(number, home)
        await self.seats.settle(number, home)

    # -- parts -------------------------------------------------------------------------------------------------

    async def _read(self) -> dict[int, Home]:
        if self._noted is None:
            self._noted = await self._options.beside(lambda: read_homes(self._crawl.directory))
        return self._noted

    def _home(self, number: int, noted: Mapping[int, Home], told: Home | None) -> Home | None:
        own = noted.get(number)
        if own is not None and (told is None or own.epoch >= told.epoch):
            return own
        if told is None and holds_job(self._crawl.partition(number)):
            return Home(self._crawl.home)
        return told

    async def _learn(self, number: int, home: Home) -> None:
        if home.epoch:
            await self._note({number: home})
        self._know(number, home)

    def _know(self, number: int, home: Home | None) -> None:
        before, self.known[number] = self.known[number], home
        if before is not None and home is not None and before.id != home.id:
            self._before[number] = before.id

    async def _note(self, known: Mapping[int, Home]) -> None:
        """Note what is new, before anybody acts on it."""
        noted = await self._read()
        if known.items() <= noted.items():
            return

        disk, directory = self._options.platform.disk, self._crawl.directory
        await self._options.beside(lambda: add_homes(disk, directory, known))
        noted.update(known)

    def _may_decide(self) -> bool:
        """Whether what nobody has told yet is told nowhere. Partition 0 notes all that is decided where it began; where
        it came to later, others may know more."""
        home = self.known[SEEDED]
        return home is None or not home.epoch or self.looks >= LOOKS

    def _note_look(self, began: float, forgotten: bool) -> None:
        if forgotten or began > self._looked + ASKED:
            self._since = began
        self._looked = began

    def _leave_or_return(self, alive: int, has_some: bool) -> None:
        """There are not many more seats than partitions: who has none for good leaves them to those who have some. With
        replicas it follows those of others, and may get some; so many are of use, and some seats stay free."""
        partitions, replicas = self._crawl.partitions, self._crawl.replicas
        most = min(partitions * (1 + replicas), partitions + SPARE // 2)
        if has_some or None in self.known:
            self.is_left_out = False
        elif not replicas or alive > most:
            self.is_left_out = True
        elif alive <= most // 2:
            self.is_left_out = False


def _is_news(told: Home | None, home: Home, *, decides: bool) -> bool:
    """Whether the carrier is to be told of the home again."""
    if told is None or told.epoch < home.epoch:
        return True
    return decides and not home.epoch and told != home
