"""Who works on the crawl, and which partitions are whose.

Each process takes a seat: a claim of one of the names ``w0``, ``w1``, ..., of which there are some more than
partitions. It keeps a value there that changes every second. A process is alive while its value changes, by the clock
of whoever looks; so no clocks are compared. A value that is gone may have been lost by the carrier, and counts as
unchanged.

A partition is at home in one directory, and only processes with that directory share it. Processes that know the same
come to the same result; when they do not, the claim of a partition decides. Where those begin that have no home yet,
whoever has partition 0 says: see ``homes``.

The partition 0 reads the seeds, so a process that is given them has it before all others. One without them never begins
it, and goes on with it only while nobody who has them is alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.ownership import HELD, Ownership, name_of, names_of
from crawler.cluster.reach import Reach
from crawler.job.home_register import EPOCH_MOST, Home
from crawler.job.partition.placement import place
from crawler.job.partition.replica_homes import target_homes

SPARE = 16  # seats more than partitions: of those who were there first, none may be the one who has the seeds
SEEDED = 0  # the partition that reads the seeds
BEATEN = 2.0  # seconds after which a process that was busy says again that it is there
MEMBER, HOME = "member", "home"  # values of a seat, and of a partition


class Seated(Struct, frozen=True, array_like=True):
    """What a process says of itself: its ``name``, the ``home`` that its partitions are in, how often it has said
    so, whether it ``has_seeds``, whether it ``drains``: it is about to leave, or cut off from the web, and takes no
    partition; whether no host answers it now; the ``place`` of its directory, which a copy of that does not have; and
    ``where`` people find it. Both are empty if unknown."""

    name: str
    home: str
    beats: int
    has_seeds: bool = False
    drains: bool = False
    unanswered: bool = False
    place: str = ""
    where: str = ""

    @property
    def fetches(self) -> bool:
        """Whether it can fetch what others give it."""
        return not self.drains and not self.unanswered


_ELSEWHERE = "another directory"  # unless a process said of it where it is
_decoder = msgspec.msgpack.Decoder(Seated)
_HOME = re.compile(rb"([0-9A-Za-z_-]{1,64})(?: ([1-9][0-9]{0,18}))?")


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
        self._twins = set[str]()  # names of those that were seen alive with this home in another place

    @property
    def names(self) -> list[str]:
        """All seats."""
        return [f"w{number}" for number in range(self._partitions + SPARE)]

    @property
    def staying(self) -> set[str]:
        """The homes in which others work who are not about to leave."""
        now = self._boottime()
        return {each.home for each, at in self._known.values() if now < at + HELD and not each.drains}

    def where(self, home: str) -> str:
        """Where people find a directory in which others work, or did."""
        return next((each.where for each, _ in self._known.values() if each.home == home and each.where), _ELSEWHERE)

    @property
    def has_twin(self) -> bool:
        """Whether another process works with a directory of which that of this one is a copy, or the other way round,
        and has done so for longer."""
        me = self._me
        return any(each.name in self._twins and each.beats >= me.beats for each, _ in self._known.values())

    async def look(self, *, sits: bool = True) -> Mapping[str, Seated]:
        """Keep the seat, or take one, or give it up if it ``sits`` no more. Returns all who are alive, by name. Raises
        CarrierError."""
        carrier, call, name = self._reach.carrier, self._reach.call, self._me.name
        if not sits:
            await self.leave()
            self.mine = None
        elif self.mine is None or self._ownership.epoch(self.mine) is None:
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

    def say(self, *, drains: bool, unanswered: bool) -> None:
        """Say this of this process from now on."""
        self._me = replace(self._me, drains=drains, unanswered=unanswered)

    async def leave(self) -> None:
        """Give the seat up."""
        if self.mine is None:
            return
        with contextlib.suppress(CarrierError):  # others learn it in time
            await self._reach.call(self._reach.carrier.put(self.mine, {MEMBER: b""}))
        await self._ownership.free(self.mine)

    async def homes(self) -> list[Home | None]:
        """Where each partition is at home, as it was last told. Raises CarrierError."""
        values = await self._reach.call(self._reach.carrier.get(names_of(range(self._partitions)), HOME))
        return [decode_home(value) for value in values]

    async def home(self, partition: int) -> Home | None:
        """Where one is at home. Raises CarrierError."""
        return decode_home((await self._reach.call(self._reach.carrier.get([name_of(partition)], HOME)))[0])

    async def settle(self, partition: int, home: Home) -> None:
        """Say where a partition is at home, unless the carrier knows a home of a later epoch. Raises CarrierError."""
        values = {HOME: encode_home(home)}
        await self._reach.call(self._reach.carrier.put(name_of(partition), values, (home.epoch, 0)))

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
        if is_alive and said.home == self._me.home and "" != said.place != self._me.place != "":
            self._twins.add(said.name)


def encode_home(home: Home) -> bytes:
    """The value ``home`` of a partition: the id of its directory, and the epoch unless it began there."""
    return f"{home.id} {home.epoch}".encode() if home.epoch else home.id.encode()


def decode_home(value: bytes | None) -> Home | None:
    """The inverse; None if there is no value, or something else is there."""
    match = None if value is None else _HOME.fullmatch(value)
    if match is None:
        return None
    epoch = int(match[2] or 0)
    return Home(match[1].decode(), epoch) if epoch <= EPOCH_MOST else None


def share(me: str, alive: Mapping[str, Seated], homes: Sequence[str | None]) -> set[int]:
    """The partitions of the process ``me``. ``alive``: all processes by name; ``homes``: those of the partitions."""
    my_home = alive[me].home if me in alive else None
    at_home = place(len(homes), _at(my_home, alive))
    mine = {number for number, home in enumerate(homes) if home == my_home and at_home.get(number) == me}
    return mine | {SEEDED} if _reader(alive, homes) == me else mine - {SEEDED}


def begins(alive: Mapping[str, Seated], homes: Sequence[str | None]) -> list[str | None]:
    """The homes, and where those partitions are to begin that have none: all who are alive share them."""
    workers = Counter(each.home for each in alive.values() if not each.drains)
    targets = target_homes(len(homes), workers, homes, {each.home for each in alive.values() if each.has_seeds})
    return [target if home is None else home for home, target in zip(homes, targets, strict=True)]


def _reader(alive: Mapping[str, Seated], homes: Sequence[str | None]) -> str | None:
    """The process that has the partition that reads the seeds."""
    home = homes[SEEDED]
    near = list(alive) if home is None else _at(home, alive)
    with_seeds = [name for name in near if alive[name].has_seeds]
    without = [] if home is None else near
    return place(len(homes), with_seeds or without).get(SEEDED)


def _at(home: str | None, alive: Mapping[str, Seated]) -> Collection[str]:
    """Those who share what is at home there: not those who are about to leave, if others are there."""
    near = [name for name, seated in alive.items() if seated.home == home]
    return [name for name in near if not alive[name].drains] or near
