"""Brings the directories of one process in line with where partitions are at home, and takes over those whose home is
deserted.

    promoted  nobody works in its home any more, and the replica here is in step. What has ended with the crawl is left
              where it is, until somebody resumes the crawl with its seeds. The claim comes first, and nobody can say of
              another home meanwhile; then the replica's directory becomes the partition's, then others are told
    arrived   its owner has handed it over: the same, but for the claim
    demoted   it was here, and is at home elsewhere: whatever ended its work here, its directory is a replica now, which
              never comes back as the partition but by one of the ways above. The same holds for a replica that a
              process has just put in the place of the partition when it dies, before it has noted that
    unfit     what cannot be opened never becomes a partition: that is tried first. Another replica does, or it waits
    removed   a replica that its owner does not ask for any more, when it has others that are in step. What a partition
              had before it began anew is kept

Each begins again where a killed process has left it, because a home is told of only when its directory is there. So
does one that the disk refuses: that is said, and whatever else the process has goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from crawler.base import entropy
from crawler.base.clock import Anchor, SteadyClock
from crawler.base.disk import FULL, no_room
from crawler.base.kv import Family, Store
from crawler.cluster.homes import Homes
from crawler.cluster.member_options import Crawl, MemberOptions
from crawler.cluster.older_copies import OlderCopies
from crawler.cluster.ownership import HELD, Ownership, name_of
from crawler.cluster.replicas import Replicas
from crawler.cluster.seats import Seated
from crawler.job.clock_anchor import CLOCK, LEAST, encode_anchor
from crawler.job.directory import STORE, JobError, holds_job
from crawler.job.former import kept_former
from crawler.job.home_register import Home
from crawler.job.partition.replica_homes import Following
from crawler.job.replica.seal import ChunkError
from crawler.job.replica.step_codec import Mark
from crawler.job.replica_moves import (
    demote,
    promote,
    remove_replica,
    replica_directory,
    replicas_here,
    set_partition_aside,
)
from crawler.job.step_log import MARK

TURN = 2.0  # seconds that the first of several replicas is ahead of the next one
APART = 20  # bits of a random step between the epochs of two owners that do not know of each other
UNWANTED = 60.0  # seconds for which nobody asks for a replica before it is removed
LONG = 2.0  # seconds after which the rest is taken over at the next look: others are to see that this process is there


class _Later(Exception):
    """It cannot be done now."""


class Promotion:
    """What one process does with the directories of its home."""

    def __init__(
        self,
        crawl: Crawl,
        options: MemberOptions,
        homes: Homes,
        ownership: Ownership,
        replicas: Replicas,
        older: OlderCopies,
    ) -> None:
        self._crawl = crawl
        self._options = options
        self._homes = homes
        self._ownership = ownership
        self._replicas = replicas
        self._older = older
        self._said: set[str] = set()  # lines that are said once
        self._resumed = False  # whether somebody works who has the seeds
        self._deserted: dict[int, float] = {}  # since when nobody works in the home of a partition
        self._unwanted: dict[int, float] = {}  # since when nobody asks for a replica that is here

    async def look(self, alive: Mapping[str, Seated], opened: Collection[int]) -> set[int]:
        """Do what is due now. ``opened``: the partitions that are open here. Returns those whose claims this process
        holds since. Raises CarrierError, JobError."""
        homes, manned = self._homes, {self._crawl.home, *(each.home for each in alive.values())}
        taken, latest = set[int](), self._options.boottime() + LONG
        self._resumed = self._options.has_seeds or any(each.has_seeds for each in alive.values())
        for number, home in enumerate(homes.known):
            if self._options.boottime() >= latest:
                break
            if home is None or number in homes.busy or number in opened:
                continue
            try:
                if await self._fit(number, home, manned):
                    taken.add(number)
            except OSError as error:
                self._say(f"partition {number} waits, its directory cannot be put in its place: {error}; tried again")
        try:
            await self._clear(manned)
        except OSError as error:
            self._say(f"replicas that nobody asks for are not removed: {error}; tried again")
        return taken

    def is_awaited(self, manned: Collection[str]) -> bool:
        """Whether partitions wait for replicas that are in step only here, as far as somebody works."""
        told = self._homes.slots.told
        deserted = [n for n, home in enumerate(self._homes.known) if home is not None and home.id not in manned]
        able = [[home for home in told[number].in_step if home in manned] for number in deserted if number in told]
        return [self._crawl.home] in able

    # -- parts -------------------------------------------------------------------------------------------------

    async def _fit(self, number: int, home: Home, manned: Collection[str]) -> bool:
        """Do what fits the home of the partition, which is not open. Returns whether this process has its claim since.
        Raises CarrierError, JobError, OSError."""
        is_there = holds_job(self._crawl.partition(number))
        if home.id == self._crawl.home:
            self._deserted.pop(number, None)
            # One that begins again has a directory, and nothing that could go on.
            begins = self._replicas.fault(number) and not self._homes.is_missing(number)
            if home.epoch and not is_there and not begins:
                await self._arrive(number)
        elif is_there:
            await self._demote(number)
        elif home.id in manned:
            self._deserted.pop(number, None)
        elif await self._is_mine_to_take(number, manned):
            return await self._promote(number, home)
        return False

    async def _is_mine_to_take(self, number: int, manned: Collection[str]) -> bool:
        """Whether the partition, whose home is deserted, goes on with the replica here. Of several, the one goes first
        that has most: it can give the others what they lack. Raises CarrierError."""
        now = self._options.boottime()
        since = self._deserted.setdefault(number, now)
        told = self._homes.slots.told.get(number)
        if told is None or self._homes.looks < HELD or (told.ended and not self._resumed):
            return False
        able = [home for home in told.in_step if home in manned]
        if len(able) > 1:
            has = await self._homes.slots.steps(number)
            able.sort(key=lambda home: has.get(home, 0), reverse=True)
        if self._crawl.home not in able or now < since + TURN * able.index(self._crawl.home):
            return False
        if self._replicas.mark(number) is None:
            if (fault := self._replicas.fault(number)) and now >= since + HELD:
                self._say_unfit(number, fault)
            return False
        return True

    async def _promote(self, number: int, home: Home) -> bool:
        """Take the partition over. Returns whether that was done. Raises CarrierError, JobError, OSError."""
        name, homes = name_of(number), self._homes
        told = homes.slots.told[number]
        apart = 1 + int.from_bytes(entropy.random_bytes(4), "big") % 2**APART
        homes.busy.add(number)
        done = False
        try:
            epoch = await self._ownership.claim(name, max(home.epoch, told.epoch) + apart)
            if epoch is None:
                return False
            await homes.learn(number)
            now = await homes.slots.read(number)
            if homes.known[number] != home or self._crawl.home not in now.in_step:
                return False
            if self._options.boottime() < self._deserted[number] + HELD and await homes.slots.has_ended(
                number, now.epoch
            ):
                return False  # its owner has ended with the crawl, which is about to be read here too
            try:
                done = await self._made(number)
            except _Later:
                return False
            if done:
                await homes.settle(number, Home(self._crawl.home, epoch))
                self._deserted.pop(number, None)
                self._options.notice(
                    f"partition {number} was taken over by its replica here: it was in "
                    f"{homes.seats.where(home.id)}, and no worker runs there"
                )
        finally:
            homes.busy.discard(number)
            if not done:
                await self._ownership.free(name)
        return done

    async def _arrive(self, number: int) -> None:
        """The partition has been handed over to this home. If what is here is not all of it, it goes back. Raises
        CarrierError, JobError, OSError."""
        name, homes = name_of(number), self._homes
        if await self._ownership.claim(name, 0) is None:
            return  # whoever had it has not closed it yet, or another process of this home does this
        homes.busy.add(number)
        try:
            await homes.learn(number)
            told = await homes.slots.read(number)
            if not homes.is_here(number):
                return
            await self._replicas.release(number)
            try:
                is_whole = await self._options.beside(partial(self._has_all, number, told)) and await self._made(number)
            except _Later:
                return
            if is_whole:
                self._options.notice(f"partition {number} moved here from {homes.where_before(number)}")
                return
            epoch, before = self._ownership.epoch(name), [*told.in_step, told.target]
            back = next((each for each in before if each not in ("", self._crawl.home)), None)
            if epoch is not None and back is not None:
                await homes.settle(number, Home(back, epoch))
        finally:
            homes.busy.discard(number)
            await self._ownership.free(name)

    def _has_all(self, number: int, told: Following) -> bool:
        """Whether the replica here has the step that was told as the last one. It has more if it comes from a home
        with an older copy."""
        if holds_job(self._crawl.partition(number)):
            return True
        path = replica_directory(self._crawl.directory, number)
        if not holds_job(path):
            return False
        if told.mark == (0, 0):
            return True  # the carrier has forgotten it; whoever handed it over had looked
        try:
            store = self._open_store(number)
            try:
                mark = Mark.decode(store.get(Family.META, MARK))
            finally:
                store.close()
        except (OSError, ChunkError):
            return True  # it is looked at before it becomes the partition
        return mark == Mark(*told.mark) or mark.number > told.mark[1]

    def _open_store(self, number: int) -> Store:
        path = replica_directory(self._crawl.directory, number) / STORE
        return self._options.platform.of_partition(number, self._crawl.partitions).open_store(path)

    async def _made(self, number: int) -> bool:
        """Make the replica the partition, if it can be opened as one. Raises _Later."""
        await self._replicas.release(number)
        directory, disk = self._crawl.directory, self._options.platform.disk
        if holds_job(replica_directory(directory, number)):
            try:
                fault = await self._replicas.check(number)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self._say(f"the replica of partition {number} takes over as soon as there is space: {no_room(error)}")
                raise _Later from error
            except JobError as error:
                raise _Later from error  # another process of this home has it
            if fault:
                self._say_unfit(number, fault)
                return False
        self._older.accept(number)

        def make() -> bool:
            self._carry_clock(number)
            return promote(disk, directory, number)

        made: bool = await self._options.beside(make)
        return made

    def _say_unfit(self, number: int, fault: str) -> None:
        path = replica_directory(self._crawl.directory, number)
        self._say(
            f"{path} cannot be opened, and does not become partition {number}: {fault}. Another replica does if one is "
            "in step; else start a worker with the directory of the partition. If that is gone for good, stop this "
            f"worker, keep what is left by `crawler repair {path}`, and start it again, or begin the partition anew "
            f"from the links that come: `crawler work` with `--forget-partition {number}`"
        )

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._options.notice(line)

    def _carry_clock(self, number: int) -> None:
        """The times in the replica are those of its owner's clock: what opens it next takes the difference for a clock
        that was set. Raises OSError."""
        clock, ahead = self._options.clock, self._homes.slots.skews.get(number, 0.0)
        anchor = clock.anchor if isinstance(clock, SteadyClock) else None
        if anchor is None or abs(ahead) < LEAST:
            return
        store = self._open_store(number)
        try:
            batch = store.batch()
            batch.put(Family.META, CLOCK, encode_anchor(Anchor(anchor.boot, anchor.offset - ahead)))
            store.write(batch)
            store.sync()
        finally:
            store.close()

    async def _demote(self, number: int) -> None:
        disk, directory = self._options.platform.disk, self._crawl.directory
        if self._crawl.replicas:
            await self._options.beside(partial(demote, disk, directory, number))
            return
        # Where there are no replicas, nobody makes one of it, and a home changes only when a partition begins anew.
        former = await self._options.beside(partial(set_partition_aside, disk, directory, number))
        if former is not None:
            self._options.notice(f"partition {number}: {kept_former(former)}")

    async def _clear(self, manned: Collection[str]) -> None:
        """Remove replicas that nobody has asked for during a while. Raises OSError."""
        now, homes = self._options.boottime(), self._homes
        here: list[int] = await self._options.beside(partial(replicas_here, self._crawl.directory))
        unwanted = {number for number in here if self._is_unwanted(number, manned)}
        self._unwanted = {number: self._unwanted.get(number, now) for number in unwanted}
        for number, since in self._unwanted.items():
            if now >= since + UNWANTED and number not in homes.busy:
                homes.busy.add(number)
                try:
                    await self._replicas.release(number)
                    disk, directory, life = self._options.platform.disk, self._crawl.directory, homes.slots.life(number)
                    former = await self._options.beside(partial(remove_replica, disk, directory, number, life))
                    if former is not None:
                        self._options.notice(f"the replica of partition {number}: {kept_former(former)}")
                finally:
                    homes.busy.discard(number)

    def _is_unwanted(self, number: int, manned: Collection[str]) -> bool:
        """Whether the partition is safe without the replica here, and its owner alive."""
        home = self._homes.known[number] if number < len(self._homes.known) else None
        told = self._homes.slots.told.get(number)
        if home is None or told is None or home.id not in manned or told.slot_of(self._crawl.home) is not None:
            return False
        if not told.life:
            return False  # what is here may be of another one
        if home.id == self._crawl.home:
            return holds_job(self._crawl.partition(number))
        named = [each for each in told.slots if each.home]
        return bool(named) and all(each.in_step for each in named)
