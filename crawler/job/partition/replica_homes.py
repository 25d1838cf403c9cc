"""Where the replicas of a partition are, and where a partition is to be.

A *home* is a directory of the crawl, usually on a machine of its own. The owner of a partition names one home for each
of its *slots*, and keeps that choice as long as somebody lives there, because another one costs a copy. It publishes
them as the value ``replicas`` of the partition: an array in MessagePack,

    epoch   of the owner
    slots   an array of [home, in step]; the home is "" where nobody is named
    now     the time of the owner's clock, in seconds since 1970
    target  the home that is to have the partition; "" if it is where it is to be
    mark    the line and the number of its last step, if it was handed over with that; else zeros
    life    a number that the partition has since it last began; 0 if its owner does not know it
    ended   whether its owner has closed it because the whole crawl had ended

They are put with an order, that of ``epoch`` and ``now``: an older word that arrives late never takes the place of a
newer one.

A replica is *in step* while the owner counts as durable only what that replica has too. No other one may become the
partition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct

SLOTS_MOST = 8  # in a value: more than there can be
SEEDED = 0  # the partition that reads the seeds


_TICK = 2e-6  # seconds; more than a time since 1970 is rounded by


class Follows(Struct, array_like=True, frozen=True):
    """A home that is to follow, and whether it is in step."""

    home: str
    in_step: bool = False


class Following(Struct, array_like=True, frozen=True):
    """What an owner says of the replicas of its partition; see above."""

    epoch: int
    slots: list[Follows]
    now: float
    target: str = ""
    mark: tuple[int, int] = (0, 0)
    life: int = 0
    ended: bool = False

    def slot_of(self, home: str) -> int | None:
        """The slot of a home; None if it has none."""
        return next((slot for slot, each in enumerate(self.slots) if each.home == home != ""), None)

    @property
    def homes(self) -> list[str]:
        """The homes that are to follow."""
        return [each.home for each in self.slots if each.home]

    @property
    def in_step(self) -> list[str]:
        """The homes that are in step, in the order of their slots."""
        return [each.home for each in self.slots if each.in_step and each.home]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Following)


def encode_following(following: Following) -> bytes:
    """The bytes of the value."""
    return _encode(following)


def decode_following(value: bytes | None) -> Following | None:
    """The inverse; None if there is no value, or something else is there."""
    try:
        said = None if value is None else _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    good = said is not None and said.epoch >= 0 and len(said.slots) <= SLOTS_MOST and math.isfinite(said.now)
    return said if good else None


def newest(one: Following | None, other: Following | None) -> Following | None:
    """What was said last: a carrier that was restored says again what it knew at some time. The clock of an owner never
    jumps within an epoch."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda said: (said.epoch, said.now))


def order_of(following: Following) -> tuple[int, int]:
    """The order of the value on a carrier: as ``newest``."""
    return following.epoch, max(0, int(following.now * 1e6))


def time_after(now: float, last: float) -> float:
    """The time of what is said now by who said something at ``last``: it comes after that also by a clock that has
    not moved."""
    return max(now, last + _TICK)


def slots_for(
    before: Sequence[str], number: int, home: str, alive: Collection[str], replicas: int, target: str | None = None
) -> list[str]:
    """The homes of the slots of the partition ``number``, which is in ``home``. ``before``: those that it had;
    ``alive``: homes in which somebody works. ``target``, if that is another home, has one of the slots, and one more is
    there for it while all others are taken: no replica is dropped before another one is whole."""
    free = set(alive) - {home, ""}
    slots = [each if each in free else "" for each in before]
    extra = slots[replicas:]
    slots = slots[:replicas] + [""] * (replicas - len(slots[:replicas]))
    wanted = target if target in free and replicas else None
    taken = {each for each in slots if each}
    if wanted is not None and wanted not in taken:
        if wanted not in extra and "" in slots:
            slots[slots.index("")] = wanted
        else:
            slots.append(wanted)
        taken.add(wanted)
    rest = sorted(free - taken, key=lambda each: _score(number, each))
    for slot, each in enumerate(slots):
        if not each and rest:
            slots[slot] = rest.pop()
    while slots and not slots[-1]:
        slots.pop()
    return slots


def target_homes(
    partitions: int, workers: Mapping[str, int], present: Sequence[str | None] = (), with_seeds: Collection[str] = ()
) -> list[str | None]:
    """The home that each partition is to have. ``workers``: how many processes each home has; by that number the homes
    share the partitions alike. ``present``: the homes that they have now. As few of them change as is needed for that,
    and none does after all have moved, or while they move. ``with_seeds``: homes that are given the seeds: the
    partition that reads them is to be in one of these, and else stays where it is."""
    if not workers:
        return [None] * partitions
    now = [*present, *[None] * (partitions - len(present))]
    at_first, near = now[SEEDED], sorted(home for home in with_seeds if home in workers)
    if near and at_first not in near:
        tried = [_Shares(workers, [home, *now[1:]]) for home in near]
        shares = max(tried, key=lambda each: each.kept)  # the first of those that move least
    else:
        shares = _Shares(workers, now)
    return shares.placed()


class _Shares:
    """How many of the partitions each home is to have, and how many are ``kept`` where they are. The partition that
    reads the seeds is kept if there are ``workers`` in its home."""

    def __init__(self, workers: Mapping[str, int], present: Sequence[str | None]) -> None:
        self._partitions = len(present)
        self._has: dict[str, list[int]] = {home: [] for home in sorted(workers)}
        for number, home in enumerate(present):
            if home in self._has:
                self._has[home].append(number)
        least, larger = divmod(self._partitions, sum(workers.values()))
        self._most = {home: least * workers[home] for home in self._has}
        # One more for as many workers as there are left over: first where that keeps one more.
        turns = [(turn, home) for turn in range(max(workers.values())) for home in self._has if turn < workers[home]]
        keeping = [(turn, home) for turn, home in turns if len(self._has[home]) > self._most[home] + turn]
        if not least and present[SEEDED] in self._has:
            keeping.insert(0, (0, str(present[SEEDED])))
        for _, home in list(dict.fromkeys([*keeping, *turns]))[:larger]:
            self._most[home] += 1
        self.kept = sum(min(len(has), self._most[home]) for home, has in self._has.items())

    def placed(self) -> list[str | None]:
        """The home of each partition."""
        placed: list[str | None] = [None] * self._partitions
        room = dict(self._most)
        for home, has in self._has.items():
            order = sorted(has, key=lambda number: (number == SEEDED, _score(number, home)), reverse=True)
            for number in order[: room[home]]:
                placed[number] = home
            room[home] -= min(len(has), room[home])
        left = [number for number, home in enumerate(placed) if home is None]
        pairs = ((_score(number, home), number, home) for number in left for home in room if room[home])
        for _, number, home in sorted(pairs, reverse=True):
            if placed[number] is None and room[home]:
                placed[number] = home
                room[home] -= 1
        return placed


def _score(number: int, home: str) -> bytes:
    name = home.encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=16, salt=number.to_bytes(4, "big"), person=b"replica").digest()
