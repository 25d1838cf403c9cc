"""Who works on the crawl, and which partitions are whose.

Each process takes a seat: a claim of one of the names ``w0``, ``w1``, ..., of which there are some more than
partitions. It keeps a value there that changes every second. A process is alive while its value changes, by the clock
of whoever looks; so no clocks are compared. A value that is gone may have been lost by the carrier, and counts as
unchanged.

All who are alive share the partitions out, each as many as any other. Processes that know the same come to the same
result; when they do not, the claim of a partition decides. Who is about to leave, or cut off from the web, gets none
while others are there.

The partition 0 reads the seeds, so a process that is given them has it before all others. One without them never begins
it, and goes on with it only while nobody who has them is alive.
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

SPARE = 16  # seats more than partitions: of those who were there first, none may be the one who has the seeds
SEEDED = 0  # the partition that reads the seeds
BEATEN = 2.0  # seconds after which a process that was busy says again that it is there
MEMBER = "member"  # the value of a seat


class Seated(Struct, frozen=True, array_like=True):
    """What a process says of itself: its ``name``, the id of its directory, how often it has said so, whether it
    ``has_seeds``, whether it ``drains``: it is about to leave; whether it is ``aside``: cut off from the web; whether
    no host answers it now; the ``place`` of its directory, which a copy of that does not have, empty if unknown; and
    the name of its ``log`` in the store."""

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
        """Whether it can fetch what others give it."""
        return not self.drains and not self.aside and not self.unanswered


_decoder = msgspec.msgpack.Decoder(Seated)


class Seats:
    """The seats of a crawl, as one process sees them."""

    def __init__(
        self, reach: Reach, ownership: Ownership, partitions: int, me: Seated, boottime: Callable[[], float]
    ) -> None:
        """``me`` is what the process says of itself at first."""
        self._reach = reach
        self._ownership = ownership
        self._partitions = partitions
        self._me = me
        self._boottime = boottime
        self.mine: str | None = None  # the seat that is held
        self._said_at = 0.0  # that this process is there
        self._known: dict[str, tuple[Seated, float]] = {}  # by seat: what was said last, and when that was new
        self._twins = set[str]()  # names of those that were seen alive with this id in another place

    @property
    def names(self) -> list[str]:
        """All seats."""
        return [f"w{number}" for number in range(self._partitions + SPARE)]

    @property
    def has_twin(self) -> bool:
        """Whether another process works with a directory of which that of this one is a copy, or the other way round,
        and has done so for longer."""
        me = self._me
        return any(each.name in self._twins and each.beats >= me.beats for each, _ in self._known.values())

    async def look(self) -> Mapping[str, Seated]:
        """Keep the seat, or take one. Returns all who are alive, by name. Raises CarrierError."""
        carrier, call, name = self._reach.carrier, self._reach.call, self._me.name
        if self.mine is None or self._ownership.epoch(self.mine) is None:
            self.mine = await self._sit()
        if self.mine is not None:
            await self._beat(self.mine)
        now = self._boottime()
        for seat, value in zip(self.names, await call(carrier.get(self.names, MEMBER)), strict=True):
            self._note(seat, value, now)
        alive = {each.name: each for each, at in self._known.values() if now < at + HELD and each.name != name}
        return alive if self.mine is None else {**alive, name: self._me}

    async def keep(self) -> None:
        """Say until cancelled that this process is there, also while it does not ``look`` for long: to open a large
        partition may take minutes."""
        while True:
            await asyncio.sleep(BEATEN)
            seat = self.mine
            if seat is not None and self._boottime() >= self._said_at + BEATEN and self._ownership.epoch(seat):
                with contextlib.suppress(CarrierError):  # it looks soon, and knows what to do then
                    await self._beat(seat)

    async def _beat(self, seat: str) -> None:
        self._said_at = self._boottime()
        self._me = replace(self._me, beats=self._me.beats + 1)
        await self._reach.call(self._reach.carrier.put(seat, {MEMBER: msgspec.msgpack.encode(self._me)}))

    def lives(self, log: str) -> bool:
        """Whether the process of that log was seen alive."""
        now = self._boottime()
        return any(each.log == log and now < at + HELD for each, at in self._known.values())

    def say(self, *, drains: bool, aside: bool, unanswered: bool) -> None:
        """Say this of this process from now on."""
        self._me = replace(self._me, drains=drains, aside=aside, unanswered=unanswered)

    async def say_now(self) -> None:
        """Say it at once. Raises CarrierError."""
        if self.mine is not None:
            await self._beat(self.mine)

    async def leave(self) -> None:
        """Give the seat up."""
        if self.mine is None:
            return
        with contextlib.suppress(CarrierError):  # others learn it in time
            await self._reach.call(self._reach.carrier.put(self.mine, {MEMBER: b""}))
        await self._ownership.free(self.mine)

    async def _sit(self) -> str | None:
        """A seat, or None if all are taken."""
        for seat in self.names:
            if await self._ownership.claim(seat, 0) is not None:
                return seat
        return None

    def _note(self, seat: str, value: bytes | None, now: float) -> None:
        if value is None:
            return
        try:
            said = _decoder.decode(value)
        except msgspec.DecodeError:  # nobody is there any more
            self._known.pop(seat, None)
            return
        before = self._known.get(seat)
        if before is None or before[0] != said:
            self._known[seat] = (said, now)
        is_alive = before is not None and before[0].name == said.name and before[0].beats < said.beats
        if is_alive and said.directory_id == self._me.directory_id and "" != said.place != self._me.place != "":
            self._twins.add(said.name)


def share(me: str, alive: Mapping[str, Seated], partitions: int) -> set[int]:
    """The numbers of the partitions of the process ``me``. ``alive``: all processes by name."""
    near = [name for name, each in alive.items() if not each.drains and not each.aside]
    near = near or [name for name, each in alive.items() if not each.drains] or list(alive)
    mine = {number for number, name in place(partitions, near).items() if name == me}
    # Only who was given the seeds can read the rest of them: so that one has them also when it is aside.
    readers = [name for name, each in alive.items() if each.has_seeds and not each.drains] or near
    reader = place(partitions, readers).get(SEEDED)
    return mine | {SEEDED} if reader == me else mine - {SEEDED}
