"""Determines which processes work on the crawl, and which partitions each of them owns.

Each process takes a seat: a claim on one of the names ``w0``, ``w1``, ..., of which there are a few more than
partitions. There it keeps a value that changes every second. A process counts as alive while its value changes, as
timed by the observer's clock, so no clocks are compared. The carrier may have lost a missing value, so that value
counts as unchanged.

All live processes divide the partitions evenly. Processes with the same view compute the same result; where views
differ, the claim on the partition decides. A process that is about to leave, or is cut off from the web, gets no
partition while others are available.

Partition 0 reads the seeds, so a process that has the seeds is preferred as its owner. A process without seeds never
starts partition 0, and continues it only while no process with seeds is alive.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.claims import HELD, Ownership
from crawler.cluster.reach import Reach
from crawler.job.partition.placement import place

SPARE = 16  # extra seats: the process with the seeds may arrive after all others
SEEDED = 0  # the partition that reads the seeds
BEATEN = 2.0  # seconds after which a busy process updates its value
NEXT = 3  # seats read from the last known one on; a process takes the first free seat, so new ones appear there
WHOLE = 8  # all seats are read in two of this many looks
MEMBER = "member"  # the name of a seat's value


class Seated(Struct, frozen=True, array_like=True):
    """The published state of a process: its ``name``; its directory's id; its update counter; whether it ``has_seeds``,
    ``drains`` (is about to leave), is ``aside`` (cut off from the web), or gets no answer from any host
    (``unanswered``); its directory's ``place``, which differs from that of a copy of the directory (empty if unknown);
    and the name of its ``log`` in the store."""

    name: str
    directory_id: str
    beats: int
    has_seeds: bool = False
    drains: bool = False
    aside: bool = False
    unanswered: bool = False
    place: str = ""
    log: str = ""

    @property
    def fetches(self) -> bool:
        """True if this process can fetch for others."""
        return not self.drains and not self.aside and not self.unanswered


_decoder = msgspec.msgpack.Decoder(Seated)


class Seats:
    """The seats of a crawl, as seen by one process."""

    def __init__(
        self, reach: Reach, ownership: Ownership, partitions: int, me: Seated, boottime: Callable[[], float]
    ) -> None:
        """``me``: the process's initial state."""
        self._reach = reach
        self._ownership = ownership
        self._partitions = partitions
        self._me = me
        self._boottime = boottime
        self.mine: str | None = None  # the seat held
        self._said_at = 0.0  # when this process last updated its value
        self._known: dict[str, tuple[Seated, float]] = {}  # by seat: the last value, and when it changed
        self._twins = set[str]()  # names of live processes with this directory id in another place

    @property
    def names(self) -> list[str]:
        """The names of all seats."""
        return [f"w{number}" for number in range(self._partitions + SPARE)]

    @property
    def has_twin(self) -> bool:
        """True if another process uses a copy of this process's directory, or the original of it, and has worked for
        longer."""
        me = self._me
        return any(each.name in self._twins and each.beats >= me.beats for each, _ in self._known.values())

    async def look(self) -> Mapping[str, Seated]:
        """Keep the current seat, or take a free one. Returns all live processes by name. Raises CarrierError."""
        carrier, call, name = self._reach.carrier, self._reach.call, self._me.name
        if self.mine is None or self._ownership.epoch(self.mine) is None:
            self.mine = await self._sit()
        if self.mine is not None:
            await self._beat(self.mine)
        now = self._boottime()
        end = max((int(seat[1:]) for seat in self._known), default=0) + NEXT
        some = self.names if self._me.beats % WHOLE <= 1 else self.names[:end]
        for seat, value in zip(some, await call(carrier.get(some, MEMBER)), strict=True):
            self._note(seat, value, now)
        alive = {each.name: each for each, at in self._known.values() if now < at + HELD and each.name != name}
        return alive if self.mine is None else {**alive, name: self._me}

    async def keep(self) -> None:
        """Update this process's value until cancelled, even if nothing calls ``look`` for a long time: opening a large
        partition may take minutes."""
        while True:
            await asyncio.sleep(BEATEN)
            seat = self.mine
            if seat is not None and self._boottime() >= self._said_at + BEATEN and self._ownership.epoch(seat):
                with contextlib.suppress(CarrierError):  # the next ``look`` handles the failure
                    await self._beat(seat)

    async def _beat(self, seat: str) -> None:
        self._said_at = self._boottime()
        self._me = replace(self._me, beats=self._me.beats + 1)
        await self._reach.call(self._reach.carrier.put(seat, {MEMBER: msgspec.msgpack.encode(self._me)}))

    def lives(self, log: str) -> bool:
        """Return True if the process with that log was recently seen alive."""
        now = self._boottime()
        return any(each.log == log and now < at + HELD for each, at in self._known.values())

    def say(self, *, drains: bool, aside: bool, unanswered: bool) -> None:
        """Set the state to publish from now on."""
        self._me = replace(self._me, drains=drains, aside=aside, unanswered=unanswered)

    async def say_now(self) -> None:
        """Publish the state at once. Raises CarrierError."""
        if self.mine is not None:
            await self._beat(self.mine)

    async def leave(self) -> None:
        """Give up the seat."""
        if self.mine is None:
            return
        with contextlib.suppress(CarrierError):  # other processes can take the seat when the claim expires
            await self._reach.call(self._reach.carrier.put(self.mine, {MEMBER: b""}))
        await self._ownership.free(self.mine)

    async def _sit(self) -> str | None:
        """Claim and return a free seat; None if all are taken."""
        for seat in self.names:
            if await self._ownership.claim(seat, 0) is not None:
                return seat
        return None

    def _note(self, seat: str, value: bytes | None, now: float) -> None:
        if value is None:
            return
        try:
            said = _decoder.decode(value)
        except msgspec.DecodeError:  # the seat was given up
            self._known.pop(seat, None)
            return
        before = self._known.get(seat)
        if before is None or before[0] != said:
            self._known[seat] = (said, now)
        is_alive = before is not None and before[0].name == said.name and before[0].beats < said.beats
        if is_alive and said.directory_id == self._me.directory_id and "" != said.place != self._me.place != "":
            self._twins.add(said.name)


def share(me: str, alive: Mapping[str, Seated], partitions: int) -> set[int]:
    """Return the numbers of the partitions of process ``me``. ``alive``: all live processes by name."""
    near = [name for name, each in alive.items() if not each.drains and not each.aside]
    near = near or [name for name, each in alive.items() if not each.drains] or list(alive)
    mine = {number for number, name in place(partitions, near).items() if name == me}
    # Only a process with the seeds can read the rest of them, so it keeps partition 0 even while aside.
    readers = [name for name, each in alive.items() if each.has_seeds and not each.drains] or near
    reader = place(partitions, readers).get(SEEDED)
    return mine | {SEEDED} if reader == me else mine - {SEEDED}
