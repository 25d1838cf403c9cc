"""One crawl of three machines that follow each other's partitions, under random faults, from a single seed, in virtual
time. The faults are those of ``ordeal_of_members``, but instead of a loss of power a machine burns with its disk, and a
new one with an empty directory comes: out of nothing, while the others hear nothing of it, while it hands over, or when
the process that follows it has just died too. Machines are also away for a while and come back with what they had, have
clocks of their own, and are told to forget partitions that are safe.

A machine burns only while somebody else has all that is promised: a second disk that is lost before is more than one
replica is for. What is promised is what owners say on the carrier, not what they believe. And until the replicas have
taken over, the carrier forgets nothing: it alone knows which ones are in step, and without that word a partition waits
for somebody to decide.

Stores are real ones, because replicas are copied and renamed. Chunks, pieces of copies and what a replica remembers are
small, so that a small crawl has many."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from crawler.base.kv import Batch
from crawler.cluster import copy_sending
from crawler.cluster.forgetting import forget_partitions
from crawler.cluster.member_options import Crawl, no_seeds
from crawler.cluster.partition_opening import Opening
from crawler.cluster.replica_slots import REPLICAS
from crawler.cluster.seats import HOME, decode_home
from crawler.job import kept_steps, replica_generations
from crawler.job.directory import PAGES, JobError
from crawler.job.home_register import Home, read_homes
from crawler.job.job_copy import JobCopy
from crawler.job.partition.replica_homes import Following, decode_following
from crawler.job.platform import Platform
from crawler.job.store.rocks import PartitionStore
from tests.cluster.faulty_ways import FaultyLine, Trouble, Way
from tests.cluster.members import SECRET, Line, MachineClock, Working
from tests.cluster.ordeal_of_members import Fault, Faulty, Fragile, Ordeal, Outcome, mend_ways
from tests.cluster.witness import Witness
from tests.durability.power import Inline
from tests.jobs import rows

IN_STEP, SOON = 30.0, 4.0  # seconds that a fire waits for the last replica: at first, and when the worst is to happen
FRESH = 2.5  # seconds for which an owner's word on the carrier is what it says now
SET = 7_200.0  # seconds that the clock of a machine is ahead of another one, at most
STEPS = 4  # in a chunk
PIECE = 16 * 1024  # bytes
KEYS = 8  # after which a replica writes a generation
NO_MARK = (0, 0)


class _Told(PartitionStore):
    """A store on the disk that tells a witness what is written to a partition. What a replica writes was told; and what
    a process writes after it was stopped while another home took over is lost."""

    def __init__(self, path: Path, witness: Witness, counts: Callable[[], bool]) -> None:
        """``counts``: whether what is written there is the partition's."""
        super().__init__(path)
        self._told = path
        self._witness = witness
        self._counts = counts

    def write(self, batch: Batch) -> None:
        if self._counts():
            self._witness.writes(self._told, batch, self.get)
        super().write(batch)

    def sync(self) -> None:
        super().sync()
        if self._counts():
            self._witness.synced(self._told)


class _Homes(Faulty):
    """A crawl whose partitions move between homes."""

    last_home: dict[str, str]  # of each partition

    def open_store(self, path: Path, line: Line) -> Any:
        home, place, number = path.parts[-4:-1]
        before = self.last_home
        if place == "partitions" and before.setdefault(number, home) != home:
            before[number] = home
            has = [row["url"] for row in rows(path.parent)] if (path.parent / PAGES).exists() else []
            (value,) = self.holdings.get([f"p{int(number)}"], REPLICAS)
            said = decode_following(value)
            if said is not None and said.mark != NO_MARK:
                self.witness.handed_over(int(number), has)
            self.witness.taken_over(int(number), has)
            self.witness.counts["taken over"] += 1
        counts = partial(self._is_at_home, number, home) if place == "partitions" else lambda: False
        return Fragile(_Told(path, self.witness, counts), line)

    def _is_at_home(self, number: str, home: str) -> bool:
        return self.last_home[number] == home

    def noted(self) -> dict[int, Home]:
        """Where each partition is at home, by all that is noted in directories."""
        homes: dict[int, Home] = {}
        for directory in self.directory.iterdir():
            for number, home in read_homes(directory).items():
                homes[number] = max(homes.get(number, home), home, key=lambda each: each.epoch)
        return homes

    def recorded(self) -> Counter[str]:
        """How often each URL is in the output, of each partition where it is at home."""
        found = Counter[str]()
        for number, home in self.noted().items():
            path = self.directory / home.id / "partitions" / f"{number:02}"
            if (path / PAGES).exists():
                found.update(row["url"] for row in rows(path))
        return found


class OrdealOfHomes(Ordeal):
    """The faults of one crawl with replicas."""

    pace, seconds = 0.2, 150.0
    replicas = 1

    crawling: _Homes

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory)
        crawling = self.crawling
        self.crawling = _Homes(
            directory,
            crawling.pages,
            min(4, crawling.partitions),
            crawling.seeds,
            crawling.settings,
            replicas=self.replicas,
        )
        self.crawling.last_home = {}
        self.crawling.chance, self.crawling.trouble = crawling.chance, crawling.trouble
        self.has_machines = True
        self._has_clocks = seed % 2 == 1  # of their own
        self._ahead: dict[str, float] = {}
        self._homes = [f"machine{at}" for at in range(3)]
        self._burnt = 0

    def run(self) -> Outcome:
        """Live through it."""
        with (
            patch.object(kept_steps, "MOST_STEPS", STEPS),
            patch.object(replica_generations, "MOST_KEYS", KEYS),
            patch.object(copy_sending, "JobCopy", partial(JobCopy, size=PIECE)),
        ):
            return super().run()

    def faults(self) -> dict[str, Fault]:
        """As of members."""
        found = super().faults()
        del found["loss of power"]
        return {
            **found,
            "away": self._leave,
            "burn": self._burn,
            "burn unheard": self._burn_unheard,
            "burn while it hands over": self._burn_while_it_hands_over,
            "burn when it is back": self._burn_when_it_is_back,
            "burn when its follower dies": self._burn_when_its_follower_dies,
            "hand over unheard": self._hand_over_unheard,
            "loss of steps": self._lose_steps,
        }

    async def _come_to_an_end(self, members: list[Working]) -> float:
        ended = await super()._come_to_an_end(members)
        if self._is_taking_over():  # a machine burnt when the crawl had ended: who resumes it goes on with the replicas
            members[:] = [self._begin(at, f"m{at}") for at in range(len(members))]
            ended = await super()._come_to_an_end(members)
        return ended

    def _begin(self, at: int, name: str | None, expected: int = 1) -> Working:
        seeds = None if at == 0 else no_seeds
        home = self._homes[at]
        return self.crawling.begin(name, expected=expected, home=home, seeds=seeds, clock=self._clock(home))

    def _clock(self, home: str) -> MachineClock:
        if home not in self._ahead:
            self._ahead[home] = self.chance.uniform(-SET, SET) if self._has_clocks else 0.0
        return MachineClock(self.crawling.clock, home, self._ahead[home])

    async def _forget(self, members: list[Working], at: int) -> bool:
        return not self._is_taking_over() and await super()._forget(members, at)

    async def _fail_over(self, members: list[Working], at: int) -> bool:
        return not self._is_taking_over() and await super()._fail_over(members, at)

    def _is_taking_over(self) -> bool:
        """Whether replicas are to take over, that only the carrier knows to be in step."""
        return bool(set(self.crawling.last_home.values()) - set(self._homes))

    # -- machines ----------------------------------------------------------------------------------------------

    async def _leave(self, members: list[Working], at: int) -> bool:
        """A machine has no power for a while, and its replicas take over before it comes back, or not."""
        if members[at].task.done():
            return False
        self.crawling.loop.go_on(members[at].line)
        await members[at].kill()
        self._come_back(members, at, self.chance.uniform(8.0, 40.0))
        return True

    def _come_back(self, members: list[Working], at: int, after: float) -> None:
        """Begin the process of a machine again after so many seconds, unless somebody has done so."""

        def begin() -> None:
            if members[at] is away:
                members[at] = self._begin(at, f"m{at}")

        away = members[at]
        asyncio.get_running_loop().call_later(after, begin)

    async def _burn(self, members: list[Working], at: int) -> bool:
        """A machine is gone with its disk, and a new one comes, at once or after a while."""
        at = self._one_of_use(at)
        if not await self._until_it_may_burn(members, at):
            return False
        await self._burns(members, at)
        return True

    async def _burn_unheard(self, members: list[Working], at: int) -> bool:
        """One that follows the machine hears nothing of what it does last, or nothing for so long that it is left
        behind. Then the machine burns, unless all that others know is on it alone; it may also only be away."""
        at = self._one_of_use(at)
        if not await self._until_it_may_burn(members, at):
            return False
        seconds = self.chance.choice([self.chance.uniform(0.2, 9.0), self.chance.uniform(10.0, 16.0)])
        with self._unheard(members, at):
            await asyncio.sleep(seconds / 2)
            if seconds % 1.0 < 0.5:  # the carrier loses something, and more comes behind it
                self._lose_steps_of(self._homes[at])
            await asyncio.sleep(seconds / 2)
            if self.chance.random() < 0.6 and await self._until_it_may_burn(members, at, SOON):
                await self._burns(members, at)
                return True
            if self.chance.random() < 0.6:
                return await self._leave(members, at)
        return await self._burn(members, at)

    async def _burn_when_it_is_back(self, members: list[Working], at: int) -> bool:
        """It has just begun again, and one that follows it hears nothing of it."""
        at = self._one_of_use(at)
        if members[at].task.done() or not await self._until_it_may_burn(members, at):
            return False
        with self._unheard(members, at):
            await asyncio.sleep(self.chance.uniform(0.0, 3.0))
            self.crawling.loop.go_on(members[at].line)
            await members[at].kill()
            members[at] = self._begin(at, f"m{at}")
            await asyncio.sleep(self.chance.uniform(3.0, 9.0))
            if await self._until_it_may_burn(members, at, SOON):
                await self._burns(members, at)
        return True

    async def _burn_while_it_hands_over(self, members: list[Working], at: int) -> bool:
        at = self._one_of_use(at)
        if members[at].task.done() or not await self._until_it_may_burn(members, at):
            return False
        members[at].member.stop()
        await asyncio.sleep(self.chance.uniform(0.5, 8.0))
        if not await self._until_it_may_burn(members, at, SOON):
            return False
        await self._burns(members, at)
        return True

    async def _burn_when_its_follower_dies(self, members: list[Working], at: int) -> bool:
        """The other processes die at the same time, come back, and somebody wants to forget what was here."""
        at = self._one_of_use(at)
        if not await self._until_it_may_burn(members, at):
            return False
        others = [other for other in range(len(members)) if other != at]
        for other in others[: self.chance.randint(1, 2)]:
            self.crawling.loop.go_on(members[other].line)
            await members[other].kill()
            self._come_back(members, other, self.chance.uniform(0.0, 6.0))
        burnt = await self._burns(members, at)
        await asyncio.sleep(self.chance.uniform(9.0, 11.0))
        if self.crawling.trouble == Trouble() and all(self._is_well(members[other]) for other in others):
            await self._forget_partitions(burnt, self._homes[others[0]])
        return True

    async def _hand_over_unheard(self, members: list[Working], at: int) -> bool:
        with self._unheard(members, at):
            return await self._stop(members, at)

    async def _lose_steps(self, members: list[Working], at: int) -> bool:
        """The carrier loses what a replica has not taken yet."""
        stream = f"p{self.chance.randrange(self.crawling.partitions)}r0"
        self.crawling.holdings.forget_end(stream, self.chance.randint(1, 3))
        return True

    def _lose_steps_of(self, home: str) -> None:
        for number, each in self.crawling.noted().items():
            if each.id == home:
                for slot in range(2):
                    self.crawling.holdings.forget_end(f"p{number}r{slot}", 2)

    @contextlib.contextmanager
    def _unheard(self, members: list[Working], at: int) -> Any:
        """One of those who follow it hears nothing from the carrier, or is not heard, until some seconds after that."""
        followers = self._followers(self._homes[at])
        others = [other for other in range(len(members)) if other != at]
        line = members[
            self.chance.choice([other for other in others if self._homes[other] in followers] or others)
        ].line
        assert isinstance(line, FaultyLine)
        cut = line.way is Way.UP and not line.is_cut
        if cut:
            self._cut_off(line, self.chance.choice(["cut", Way.MUTE, Way.DEAF]))
        try:
            yield
        finally:
            if cut:
                asyncio.get_running_loop().call_later(self.chance.uniform(0.0, 5.0), mend_ways, [line])

    async def _burns(self, members: list[Working], at: int) -> str:
        """Burn the machine. Returns what its home was."""
        burnt, gone = self._homes[at], members[at]
        self.crawling.loop.go_on(members[at].line)
        await members[at].kill()
        shutil.rmtree(self.crawling.directory / burnt)
        self._burnt += 1
        self.crawling.witness.note("burnt", burnt)
        self._homes[at] = f"new{self._burnt}"
        if self.chance.random() < 0.5:
            await asyncio.sleep(self.chance.uniform(0.0, 20.0))
        if members[at] is gone:
            members[at] = self._begin(at, f"m{at}.{self._burnt}")
        return burnt

    def _followers(self, home: str) -> set[str]:
        """The homes that follow a partition of that home."""
        here = [number for number, each in self.crawling.noted().items() if each.id == home]
        said = [decode_following(self._value(number, REPLICAS)) for number in here]
        return {home for each in said if each is not None for home in each.in_step}

    def _one_of_use(self, at: int) -> int:
        """One of the machines that have a partition, or that one."""
        homes = {home.id for home in self.crawling.noted().values()}
        return self.chance.choice([each for each, home in enumerate(self._homes) if home in homes] or [at])

    async def _until_it_may_burn(self, members: list[Working], at: int, patience: float = IN_STEP) -> bool:
        """Wait until it may. Returns whether it may."""
        until = asyncio.get_running_loop().time() + patience
        while not self._may_burn(members, at):
            await asyncio.sleep(self.chance.uniform(0.05, 0.5))
            if asyncio.get_running_loop().time() > until or all(each.task.done() for each in members):
                return False
        return True

    def _may_burn(self, members: list[Working], at: int) -> bool:
        """Whether each partition is elsewhere, or its owner says now, on the carrier, that a replica is in step which
        is on another machine."""
        holdings, clock = self.crawling.holdings.__dict__, self._clock(self._homes[at])
        rest, noted = set(self._homes) - {self._homes[at]}, self.crawling.noted()
        if self._is_taking_over():
            return False
        for number in range(self.crawling.partitions):
            name = f"p{number}"
            claim, told = holdings["_claims"].get(name), decode_home(self._value(number, HOME))
            homes = [home for home in (noted.get(number), told) if home is not None]
            home = max(homes, key=lambda each: each.epoch, default=None)
            if home is None or home.id not in self._homes:
                return False
            if home.id in rest:
                continue
            said = decode_following(self._value(number, REPLICAS))
            if said is None or claim is None or claim.holder != members[at].member.name:
                return False
            epoch = holdings["_streams"][name].epochs.get(name)
            if said.epoch != epoch or clock() > said.now + FRESH or not rest.intersection(said.in_step):
                return False
            if not all(rest.intersection(each.in_step) for each in self._on_its_way(name)):
                return False
        return True

    def _on_its_way(self, name: str) -> Iterator[Following]:
        """What was said of the replicas of a partition and is not on the carrier yet. A machine that burns while it
        says that its replica is not in step any more is one without a replica, to all others."""
        for line in self.crawling.lines:
            for said, values in line.puts:
                following = decode_following(values.get(REPLICAS))
                if said == name and following is not None:
                    yield following

    def _value(self, number: int, key: str) -> bytes | None:
        """What is said of a partition on the carrier."""
        (value,) = self.crawling.holdings.get([f"p{number}"], key)
        return value

    # -- somebody who is in a hurry ----------------------------------------------------------------------------

    def _is_well(self, working: Working) -> bool:
        line = working.line
        assert isinstance(line, FaultyLine)
        is_halted = line in self.crawling.loop.__dict__["_stopped"]
        return not (working.task.done() or line.is_cut or line.way is not Way.UP or is_halted)

    async def _forget_partitions(self, burnt: str, home: str) -> None:
        """Somebody wants partitions to begin again in that home, whose replicas are safe."""
        crawling = self.crawling
        for number in [int(name) for name, last in crawling.last_home.items() if last == burnt]:
            crawl = Crawl(crawling.directory / home, crawling.partitions, SECRET, home, replicas=1)
            opening = Opening(crawl, Platform(executor=Inline), crawling.clock, lambda: crawling.settings)
            with contextlib.suppress(JobError):  # it must say no
                await forget_partitions(crawling.carrier, opening, [number], crawling.clock)
                crawling.witness.note("forgotten", number)
                crawling.witness.counts["forgotten"] += 1


def ordeal_of_homes(seed: int, directory: Path) -> Outcome:
    """The outcome of that seed."""
    return OrdealOfHomes(seed, directory).run()
