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

from crawler.partition.placement import place

SLOTS_MOST = 8  # in a value: more than there can be


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


def target_homes(partitions: int, workers: Mapping[str, int]) -> list[str | None]:
    """The home that each partition is to have. ``workers``: how many processes each home has. What they are called does
    not matter, so one that is started again moves nothing."""
    labels = {f"{home}/{rank}": home for home, count in workers.items() for rank in range(count)}
    placed = place(partitions, labels)
    return [labels[placed[number]] if placed else None for number in range(partitions)]


def _score(number: int, home: str) -> bytes:
    name = home.encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=16, salt=number.to_bytes(4, "big"), person=b"replica").digest()
