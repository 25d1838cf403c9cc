"""Faults planted into replicas and what becomes of them: each is a mistake that is easily made, in the code itself. An
ordeal of homes must find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.cluster import member, replica_directory
from crawler.cluster.homes import Homes
from crawler.cluster.promotion import Promotion
from crawler.cluster.replica_slots import ReplicaSlots
from crawler.cluster.slot_sending import SlotSending
from crawler.job.directory import holds_job
from crawler.job.follower import Follower
from crawler.job.home_register import Home
from crawler.job.kept_steps import KeptSteps
from crawler.job.partition.replica_homes import Following, Follows
from crawler.job.partition.replica_values import ReplicaState
from crawler.job.promises import Promises
from crawler.job.steps.step_codec import Chunk, Mark

Planted = AbstractContextManager[Any]


# -- what others may rely on


def _own_disk_counts() -> Planted:
    return patch.object(Promises, "kept", property(lambda self: self.durable))


@contextmanager
def _heard_of_any_home() -> Planted:
    hear = SlotSending.hear
    return patch.object(SlotSending, "hear", lambda self, said, now: hear(self, said_by(said, self.home), now))


def said_by(said: ReplicaState, home: str) -> ReplicaState:
    """The same, as if that home had said it."""
    return replace(said, home=home)


# -- following


@contextmanager
def _applied(takes: Callable[[Chunk, Mark], bool], writes: Callable[[Mark, Mark], bool]) -> Iterator[None]:
    """Steps are written whenever ``writes`` says so of what is there and what they follow."""

    def apply(self: Follower, chunk: Chunk) -> None:
        for number, step in enumerate(chunk.steps, chunk.first):
            if writes(self.mark, Mark(chunk.line if number > chunk.first else chunk.base, number - 1)):
                self._write(step)
                self.mark = Mark(chunk.line, number)
        self.keep(0)

    with patch.object(replica_directory, "follows", takes), patch.object(Follower, "apply", apply):
        yield


def _gaps() -> Planted:
    return _applied(
        lambda chunk, mark: chunk.reaches.number > mark.number, lambda mark, before: before.number >= mark.number
    )


@contextmanager
def _any_line() -> Iterator[None]:
    def holds(self: KeptSteps, mark: Mark) -> bool:
        return self.before.number <= mark.number <= self.mark.number

    numbers = _applied(
        lambda chunk, mark: chunk.first <= mark.number + 1 <= chunk.reaches.number,
        lambda mark, before: before.number == mark.number,
    )
    with numbers, patch.object(KeptSteps, "holds", holds):
        yield


def _all_are_trimmed() -> Planted:
    sync = Follower.sync

    def planted(self: Follower) -> None:
        sync(self)
        if self.generations.covered:  # also those after the generation, and the last one
            batch = self.__dict__["_store"].batch()
            batch.delete_range(Family.DONE, b"", b"\xff" * 16)
            self.__dict__["_store"].write(batch)

    return patch.object(Follower, "sync", planted)


# -- where a partition is


_promoting: ContextVar[bool] = ContextVar("promoting", default=False)


def _all_in_step(told: Following) -> Following:
    return replace(told, slots=[Follows(each.home, bool(each.home)) for each in told.slots])


@contextmanager
def _whether_in_step_or_not() -> Iterator[None]:
    read = ReplicaSlots.read

    class Careless(Promotion):
        async def _is_mine_to_take(self, number: int, manned: Any) -> bool:
            told = self._homes.slots.told
            before = dict(told)
            told.update({number: _all_in_step(each) for number, each in before.items()})
            try:
                return await super()._is_mine_to_take(number, manned)
            finally:
                told.update(before)

        async def _promote(self, number: int, home: Home) -> bool:
            token = _promoting.set(True)
            try:
                return await super()._promote(number, home)
            finally:
                _promoting.reset(token)

    async def told(self: ReplicaSlots, number: int) -> Following:
        found = await read(self, number)
        return _all_in_step(found) if _promoting.get() else found

    with (
        patch.object(member, "Promotion", Careless),
        patch.object(ReplicaSlots, "read", told),
    ):
        yield


def _here_if_there_is_a_directory() -> Planted:
    class Careless(Homes):
        def _home(self, number: int, noted: Mapping[int, Home], told: Home | None) -> Home | None:
            if holds_job(self._crawl.partition(number)):
                return noted.get(number, Home(self._crawl.home))
            return super()._home(number, noted, told)

    return patch.object(member, "Homes", Careless)


def _the_carriers_word() -> Planted:
    class Careless(Homes):
        def _home(self, number: int, noted: Mapping[int, Home], told: Home | None) -> Home | None:
            return told or super()._home(number, noted, told)

    return patch.object(member, "Homes", Careless)


def _stays_the_partition() -> Planted:
    class Careless(Promotion):
        async def _demote(self, number: int) -> None:
            pass

    return patch.object(member, "Promotion", Careless)


FAULTS: dict[str, Callable[[], Planted]] = {
    "an owner's own disk is enough": _own_disk_counts,
    "a replica is promoted whether it is in step or not": _whether_in_step_or_not,
    "a directory that is there is the partition": _here_if_there_is_a_directory,
    "a directory stays the partition when its home is elsewhere": _stays_the_partition,
    "a replica forgets finished URLs that no generation of it covers": _all_are_trimmed,
    "what was said of the replica before it counts for the one in its slot": _heard_of_any_home,
    "steps are taken although some before them are missing": _gaps,
    "steps of another line are taken": _any_line,
    "the word of the carrier counts before what is noted": _the_carriers_word,
}
