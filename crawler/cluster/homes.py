"""Where each partition is at home, as one process knows it, and where those are to begin that have none yet.

The process that has partition 0 open decides that. It notes the directory in its own before it tells anybody, so that
no partition ever begins in a second one: whatever the carrier forgets, and whichever machines are away meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawler.cluster.member_options import Crawl, MemberOptions
from crawler.cluster.ownership import HELD
from crawler.cluster.seats import SEEDED, Seated, Seats, begins
from crawler.job.directory import holds_job
from crawler.job.home_register import read_homes, write_homes

PATIENCE = 2 * HELD  # seconds without a worker in a home: then it is said. One that is replaced is back sooner


class Homes:
    """The homes of the partitions of a crawl."""

    def __init__(self, crawl: Crawl, seats: Seats, options: MemberOptions, name: str) -> None:
        """``name`` is that of this process."""
        self._crawl = crawl
        self._seats = seats
        self._options = options
        self._noted: dict[int, str] | None = None
        self._name = name
        self._deserted_at: float | None = None  # since when partitions wait for a worker in another home
        self._has_said = False
        self.is_left_out = False  # all partitions are at home in other directories, for good

    async def look(self, alive: Mapping[str, Seated], *, decides: bool) -> list[str | None]:
        """The home of each partition; None: it is not known, or it has none. ``decides``: this process has partition 0
        open, and says where those are to begin that have none. Raises CarrierError, JobError, OSError."""
        told = await self._seats.homes()
        noted = self._noted
        if noted is None:
            noted = self._noted = await self._options.beside(lambda: read_homes(self._crawl.directory))
        homes = [self._home(number, noted, each) for number, each in enumerate(told)]
        if decides:
            homes = begins(alive, homes)
        known = {number: home for number, home in enumerate(homes) if home is not None}
        mine = {number for number, home in known.items() if home == self._crawl.home}
        if not decides:
            known = {number: home for number, home in known.items() if number == SEEDED}
        await self._note(noted, known)
        for number in known if decides else mine:
            if told[number] != homes[number] and (decides or told[number] is None):
                await self._seats.settle(number, homes[number] or "")
        self.is_left_out = not mine and None not in homes
        self._look_for_deserted(alive, homes)
        return homes

    def _look_for_deserted(self, alive: Mapping[str, Seated], homes: Sequence[str | None]) -> None:
        """Say once that partitions wait for a worker in another home. Of a home's processes that have a seat, one says
        it; those that are left out do not know of each other."""
        manned = {self._crawl.home, *(each.home for each in alive.values())}
        deserted = sum(home is not None and home not in manned for home in homes)
        if not deserted:
            self._deserted_at, self._has_said = None, False
            return
        now = self._options.boottime()
        if self._deserted_at is None:
            self._deserted_at = now
        near = [name for name, each in alive.items() if each.home == self._crawl.home]
        if self._has_said or now < self._deserted_at + PATIENCE or self._name != min([*near, self._name]):
            return
        self._has_said = True
        self._options.notice(
            f"{deserted} of {len(homes)} partitions of the crawl are in other directories, in which nobody works, and "
            "wait: start a worker with each, `crawler stats --engine --crawl` names them; if they are gone for good, "
            "begin the crawl under another name"
        )

    def _home(self, number: int, noted: Mapping[int, str], told: str | None) -> str | None:
        if number in noted:
            return noted[number]
        if told is None and holds_job(self._crawl.partition(number)):
            return self._crawl.home
        return told

    async def _note(self, noted: dict[int, str], known: Mapping[int, str]) -> None:
        """Note what is new, before anybody acts on it."""
        if known.items() <= noted.items():
            return
        both = {**noted, **known}
        await self._options.beside(lambda: write_homes(self._options.platform.disk, self._crawl.directory, both))
        noted.update(known)
