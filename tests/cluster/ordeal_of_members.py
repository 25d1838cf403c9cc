"""One crawl of three members under random faults, from a single seed, in virtual time: processes that are killed
between two steps or in one, lose power, are stopped and go on, hand over, and are cut off from the carrier or from the
web, in one direction or both; a carrier that is slow, loses calls and answers, does calls twice or late, and loses all,
a part, the end of a stream, or some seconds of everything, as where a standby takes over that had not got them.

Each third crawl lives in a store, and its members are machines of their own, whose disks burn, too. The store is slow,
away, and loses answers.

Servers and stores tell a witness what they see, so ``check`` can say what is wrong."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import itertools
import random
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from crawler.base.kv import Batch
from crawler.base.settings.parts import RetrySettings
from crawler.cluster.member_options import MemberResult, no_seeds
from crawler.engine.gauges import Gauges
from crawler.engine.lifecycle import Stop
from crawler.inspect.host_states import HostStates
from crawler.job.directory import PAGES
from crawler.job.partition.placement import Placement
from crawler.job.store.rocks import PartitionStore
from tests.chance import CHANCE, NO_TEST
from tests.cluster.faulty_ways import FaultyLine, FaultyWeb, Trouble, Way
from tests.cluster.members import SECRET, SETTINGS, Bucket, Crawling, Line, Mortal, Working, with_delay
from tests.cluster.stopping_loop import StoppingLoop, process
from tests.cluster.witness import Witness
from tests.faulty_store import FaultyStore
from tests.holdings import LosingHoldings
from tests.jobs import rows
from tests.simulated_web import Answer

MEMBERS = 3
FAULTS = 60.0  # seconds with faults; then none come any more
PATIENCE = 3_000.0  # seconds after that until a crawl must have ended
DELAYS = (0.5, 3.0)  # seconds between two requests to a host
LONG_DELAYS = (12.0, 12.0)  # longer than it takes a member to have a partition that another one had
TROUBLES = (
    Trouble(),
    Trouble(0.0, 0.4, 0.0),
    Trouble(0.01, 0.02, 0.01),
    Trouble(0.03, 0.1, 0.02),
    Trouble(0.1, 0.2, 0.05),
)


Fault = Callable[["list[Working]", int], Awaitable[bool]]


@dataclass
class Outcome:
    """What came of it. ``wrong`` is what must not be, by its kind."""

    wrong: dict[str, list[str]]
    counts: dict[str, int]
    pages: int
    asked: int
    seconds: float
    trace: str


def chains(chance: random.Random, count: int) -> dict[str, Answer]:
    """So many chains across hosts, and a few links besides. The first pages are the begins of the chains."""
    hosts = chance.randint(2, 14)
    hrefs = [f"http://h{number % hosts}.test/{number // hosts}" for number in range(count * chance.randint(5, 30))]
    pages: dict[str, Answer] = {}
    for number, href in enumerate(hrefs):
        links = hrefs[number + count : number + count + 1] + ([chance.choice(hrefs)] if chance.random() < 0.1 else [])
        pages[href] = "".join(f'<a href="{link}">x</a>' for link in links)
    return pages


class _Watched(FaultyStore):
    """A store that tells a witness what is written."""

    def __init__(self, path: Path, witness: Witness) -> None:
        super().__init__()
        self._path = path
        self._witness = witness
        self._written: list[Batch] = []
        self._durable = 0  # of these

    def write(self, batch: Batch) -> None:
        self._witness.writes(self._path, batch, self.get)
        self._write(batch)

    def sync(self) -> None:
        super().sync()
        self._durable = len(self._written)
        self._witness.synced(self._path)

    def lose_power(self, chance: random.Random) -> FaultyStore:
        """As that of a ``FaultyStore``."""
        left = chance.randint(self._durable, len(self._written))
        after = _Watched(self._path, self._witness)
        for batch in self._written[:left]:
            after._write(batch)
        self._witness.lost(self._path, self._written[left:])
        after.sync()
        return after

    def _write(self, batch: Batch) -> None:
        super().write(batch)
        copied = Batch()
        copied.changes = list(batch.changes)
        self._written.append(copied)


class Fragile(Mortal):
    """A store whose process may die before any write."""

    def write(self, batch: Batch) -> None:
        line = self._line
        assert isinstance(line, FaultyLine)
        if line.dies_after is not None and not line.is_dead:
            line.dies_after -= 1
            if line.dies_after < 0:
                line.die()
        super().write(batch)


class Faulty(Crawling):
    """A crawl whose members have ways and stores with faults."""

    witness: Witness
    chance: random.Random
    trouble: Trouble

    def make_loop(self) -> StoppingLoop:
        self.loop = StoppingLoop()
        self.lines: list[FaultyLine] = []
        placement = Placement(SECRET, self.partitions)
        self.witness = Witness(self.loop.time, placement, self.pages, apart=self.bucket is not None)
        return self.loop

    def line(self) -> FaultyLine:
        line = FaultyLine(self.carrier, len(self.lines), self.chance.getrandbits(32), self.witness)
        line.trouble = self.trouble
        self.lines.append(line)
        return line

    def open_store(self, path: Path, line: Line) -> Any:
        if self.bucket is not None:
            return Fragile(PartitionStore(path), line)
        if path not in self.stores:
            self.stores[path] = _Watched(path, self.witness)
        return Fragile(self.stores[path], line)

    def web(self, line: Line) -> FaultyWeb:
        assert isinstance(line, FaultyLine)
        self._web = FaultyWeb(self.pages, line, self.seconds, self.asked)
        return self._web

    def start(self, line: Line, working: Working) -> asyncio.Task[MemberResult]:
        assert isinstance(line, FaultyLine)
        self._web.is_probing = lambda: working.member.worker.context.line.paused
        context = contextvars.copy_context()
        context.run(process.set, line)
        task = self.loop.create_task(self.work(working), context=context)
        task.add_done_callback(lambda done: self._ended(line, done), context=contextvars.Context())
        return task

    def _ended(self, line: FaultyLine, task: asyncio.Task[MemberResult]) -> None:
        if task.cancelled() or line.is_dead:
            return
        error = task.exception()
        if error is not None:
            self.witness.complain("error", f"member {line.number}: {error!r}")
        elif task.result().reason is Stop.FINISHED and self.bucket is None:  # the witness does not see disks
            self.witness.ends(line.number)


class Ordeal:
    """The faults of one crawl: so many a second, for so many seconds."""

    pace, seconds = 0.3, FAULTS

    def __init__(self, seed: int, directory: Path) -> None:
        self.chance = random.Random(seed)
        CHANCE.begin(NO_TEST)  # so that a seed is the same crawl in each test, and in the benchmark
        CHANCE.seed(seed)
        chance, count = self.chance, self.chance.randint(1, 8)
        pages = chains(chance, count)
        settings = with_delay(SETTINGS, chance.choice(DELAYS))
        settings = replace(
            settings,
            durability=replace(settings.durability, sync_interval=chance.choice([1.0, 5.0])),
            politeness=replace(settings.politeness, patience="endless", backoff_first=0.05),
            retry=RetrySettings(tries=1_000, first_wait=1.0, max_wait=1.0),
        )
        partitions, seeds = chance.choice([2, 4, 8]), tuple(pages)[:count]
        self.crawling = Faulty(directory, pages, partitions, seeds, settings)
        self.crawling.chance = chance
        self.has_machines = is_stored(seed)  # of its own for each member
        if self.has_machines:
            self.crawling.bucket = Bucket()
        self.machines = 0  # that took the place of others
        self.homes: dict[int, str] = {}
        self.crawling.trouble = chance.choice(TROUBLES)

    def run(self) -> Outcome:
        """Live through it."""
        crawling = self.crawling
        # They only tell people, from a machine whose memory is real, and are a fifth of what members do that wait.
        with (
            patch.object(Gauges, "look_ahead", _nothing_to_tell),
            patch.object(HostStates, "watch", _nothing_to_tell),
        ):
            seconds = crawling.live(self._live)
        witness, recorded = crawling.witness, crawling.recorded()
        missing = sorted(set(crawling.pages) - set(recorded))
        if missing:
            witness.complain("missing", f"{missing[:3]} of {len(missing)}")
        for url, count in recorded.items():
            if count > 1:
                witness.complain("twice", f"{url} has {count} records")
        gap = crawling.shortest_gap() / crawling.settings.politeness.delay
        if gap < 0.999:
            witness.complain("gap", f"{gap:.3f} of the delay")
        return Outcome(
            dict(witness.wrong),
            dict(witness.counts),
            len(crawling.pages),
            len(crawling.asked),
            seconds,
            witness.trace,
        )

    async def _live(self, crawling: Crawling) -> float:
        chance, time = self.chance, asyncio.get_running_loop().time
        members = [self._begin(number, f"m{number}", chance.choice([1, 3])) for number in range(MEMBERS)]
        faults = self.faults()
        while time() < self.seconds and not self._is_over(members):
            await asyncio.sleep(chance.expovariate(self.pace))
            at, name = chance.randrange(MEMBERS), chance.choice(list(faults))
            self.crawling.witness.note(name, at)
            if await faults[name](members, at) is not False:
                self.crawling.witness.counts[f"fault: {name}"] += 1
        return await self._come_to_an_end(members)

    def faults(self) -> dict[str, Fault]:
        """What may go wrong, by its name. One that does not happen now returns False."""
        return {
            "kill": self._kill,
            "kill in a step": self._kill_in_a_step,
            "loss of power": self._lose_power,
            "stop": self._stop,
            "start": self._restart,
            "cut from the carrier": self._cut,
            "cut from the web": self._cut_web,
            "halt": self._halt,
            "loss in the carrier": self._forget,
            "failover": self._fail_over,
            "carrier down": self._take_down,
            "store away": self._lose_store,
        }

    async def _come_to_an_end(self, members: list[Working]) -> float:
        """Without faults, the crawl must end."""
        crawling, time = self.crawling, asyncio.get_running_loop().time
        crawling.trouble, until = Trouble(), time() + PATIENCE
        while time() < until:
            for at, each in enumerate(members):
                self._revive(each)
                if each.task.done() and not _has_ended(each):
                    members[at] = self._begin(at, f"m{at}")
            if self._is_over(members):
                return time()
            await asyncio.sleep(1.0)
        crawling.witness.complain("end", f"none after {PATIENCE:g} s without faults")
        return time()

    def _is_over(self, members: list[Working]) -> bool:
        """Whether all have ended, or one has failed: if that were only repeated, it would take an hour."""
        return "error" in self.crawling.witness.wrong or all(each.task.done() for each in members)

    def _begin(self, at: int, name: str | None, expected: int = 1) -> Working:
        if not self.has_machines:
            return self.crawling.begin(name, expected=expected)
        home = self.homes.setdefault(at, f"machine{at}")
        working = self.crawling.begin(name, expected=expected, home=home, seeds=None if at == 0 else no_seeds)
        assert working.door is not None
        working.door.released = partial(self._released, working)
        working.door.latency = self.chance.choice([0.0, 0.0, 0.1, 2.0])
        if self.chance.random() < 0.3:
            loses = random.Random(self.chance.getrandbits(32))
            working.door.answers = (loses.random() > 0.2 for _ in itertools.repeat(None))
        return working

    def _released(self, working: Working, number: int) -> None:
        """What an open partition has finished is in the store when it is given up."""
        if number in working.member.runs and (working.crawl.partition(number) / PAGES).exists():
            self.crawling.witness.stored({row["url"] for row in rows(working.crawl.partition(number))})

    # -- faults of processes -----------------------------------------------------------------------------------

    def _revive(self, working: Working) -> FaultyLine:
        """A process that goes on, and whose ways work."""
        line = working.line
        assert isinstance(line, FaultyLine)
        if not line.is_dead:
            line.heal()
        if working.door is not None:
            working.door.is_away, working.door.answers = False, itertools.repeat(True)
        self.crawling.loop.go_on(line)
        return line

    async def _kill(self, members: list[Working], at: int) -> bool:
        if members[at].task.done():
            return False
        self.crawling.loop.go_on(members[at].line)
        await members[at].kill()
        members[at] = self._begin(at, self.chance.choice([f"m{at}", None]))
        return True

    async def _until_it_dies(self, working: Working) -> None:
        """Wait until the process dies before one of its next writes, unless it writes nothing."""
        line = working.line
        assert isinstance(line, FaultyLine)
        self.crawling.loop.go_on(line)
        line.dies_after = self.chance.randrange(4)
        await asyncio.wait(
            [working.task, asyncio.ensure_future(line.died.wait())], timeout=3.0, return_when="FIRST_COMPLETED"
        )
        line.died.set()

    async def _kill_in_a_step(self, members: list[Working], at: int) -> bool:
        if members[at].task.done():
            return False
        await self._until_it_dies(members[at])
        return await self._kill(members, at)

    async def _lose_power(self, members: list[Working], at: int) -> bool:
        if members[at].task.done():
            return False
        if self.has_machines:
            return await self._burn(members, at)
        if self.chance.random() < 0.3:
            await self._until_it_dies(members[at])
        self.crawling.loop.go_on(members[at].line)
        await self.crawling.lose_power(members[at], self.chance)
        if self.chance.random() < 0.5:
            self.crawling.holdings.forget()  # or the stream would still have what a receiver lost
        members[at] = self._begin(at, self.chance.choice([f"m{at}", None]))
        return True

    async def _burn(self, members: list[Working], at: int) -> bool:
        """A machine loses its disk, or all do; often after some seconds under an epoch that the store does not know."""
        burning = range(MEMBERS) if self.chance.random() < 0.2 else [at]
        is_unstored = self.chance.random() < 0.5
        if is_unstored:
            for each in burning:
                self._keep_from_store(members[each], 15.0)
            self.crawling.holdings.forget()
            await asyncio.sleep(self.chance.uniform(1.0, 15.0))
        for each in burning:
            self.crawling.loop.go_on(members[each].line)
            if not members[each].task.done():
                await members[each].kill()
            shutil.rmtree(members[each].crawl.directory)
        if (len(burning) > 1 or is_unstored) and self.chance.random() < 0.5:
            self.crawling.holdings.forget()
        for each in burning:
            self.machines += 1
            self.homes[each] = f"new{self.machines}"
            members[each] = self._begin(each, f"m{each}")
        return True

    async def _lose_store(self, members: list[Working], at: int) -> bool:
        """A machine does not reach the store for a while."""
        if not self.has_machines:
            return False
        self._keep_from_store(members[at], self.chance.uniform(1.0, 60.0))
        return True

    def _keep_from_store(self, working: Working, seconds: float) -> None:
        assert working.door is not None
        working.door.is_away = True
        asyncio.get_running_loop().call_later(seconds, setattr, working.door, "is_away", False)

    async def _stop(self, members: list[Working], at: int) -> bool:
        if members[at].task.done():
            return False
        self._revive(members[at])
        members[at].member.stop()
        await asyncio.wait([members[at].task])  # an error is seen by the witness
        return True

    async def _restart(self, members: list[Working], at: int) -> bool:
        if not members[at].task.done():
            return False
        members[at] = self._begin(at, f"m{at}")
        return True

    async def _halt(self, members: list[Working], at: int) -> bool:
        """Stop a process for a while, often for longer than its claims hold."""
        if members[at].task.done():
            return False
        loop, line = self.crawling.loop, members[at].line
        loop.halt(line)
        loop.call_later(self.chance.uniform(1.0, 35.0), loop.go_on, line)
        return True

    # -- faults of ways ----------------------------------------------------------------------------------------

    async def _cut(self, members: list[Working], at: int) -> bool:
        line = members[at].line
        assert isinstance(line, FaultyLine)
        if line.is_dead:
            return False
        if line.is_cut or line.way is not Way.UP:
            line.is_cut, line.way = False, Way.UP
        else:
            how = self.chance.choice(["cut", Way.MUTE, Way.DEAF])
            self._cut_off(line, how)
            if self.chance.random() < 0.2:  # the whole machine
                line.web = Way.MUTE
                asyncio.get_running_loop().call_later(self.chance.uniform(1.0, 20.0), _mend_web, line)
        return True

    def _cut_off(self, line: FaultyLine, how: str | Way) -> None:
        if isinstance(how, Way):
            line.way = how
        else:
            line.is_cut = True

    async def _cut_web(self, members: list[Working], at: int) -> bool:
        line = members[at].line
        assert isinstance(line, FaultyLine)
        line.web = self.chance.choice([Way.MUTE, Way.DEAF])
        asyncio.get_running_loop().call_later(self.chance.uniform(1.0, 20.0), _mend_web, line)
        return True

    # -- faults of the carrier ---------------------------------------------------------------------------------

    async def _forget(self, members: list[Working], at: int) -> bool:
        holdings, chance = self.crawling.holdings, self.chance
        which = chance.random()
        names = [f"p{number}" for number in range(self.crawling.partitions)]
        if which < 0.4:
            holdings.forget()
        elif which < 0.7:
            holdings.forget(chance.sample([*names, "crawl", "w0", "w1"], 2))
        else:
            holdings.forget_end(chance.choice(names), chance.randint(1, 3))
        return True

    async def _fail_over(self, members: list[Working], at: int) -> bool:
        """Lose all that the carrier acknowledged in some seconds: entries, trims, claims, epochs and values."""
        copied = copy.deepcopy(self.crawling.holdings.__dict__)
        await asyncio.sleep(self.chance.choice([0.05, 0.3, 1.0, 4.0]))
        roll_back(self.crawling.holdings, copied)
        return True

    async def _take_down(self, members: list[Working], at: int) -> bool:
        """Nobody reaches the carrier for a while."""
        down = [line for line in self.crawling.lines if not line.is_cut and line.way is Way.UP]
        how = self.chance.choice(["cut", Way.MUTE, Way.DEAF])
        for line in down:
            self._cut_off(line, how)
        asyncio.get_running_loop().call_later(self.chance.uniform(0.5, 20.0), mend_ways, down)
        return True


def _has_ended(working: Working) -> bool:
    task = working.task
    return not task.cancelled() and task.exception() is None and working.member.reason is Stop.FINISHED


async def _nothing_to_tell(*_: object) -> None:
    await asyncio.Event().wait()


def _mend_web(line: FaultyLine) -> None:
    line.web = Way.UP


def mend_ways(lines: Sequence[FaultyLine]) -> None:
    for line in lines:
        if not line.is_dead:
            line.is_cut, line.way = False, Way.UP


def roll_back(holdings: LosingHoldings, copied: dict[str, Any]) -> None:
    """Let a carrier hold what it held when that was copied. Positions of entries that it has lost are unknown to it."""
    born = holdings.__dict__["_born"]
    holdings.__dict__.update(copied, _born=born)
    for name in list(holdings.__dict__["_streams"]):
        holdings.forget_end(name, 0)


def is_stored(seed: int) -> bool:
    """Whether the crawl of that seed lives in a store."""
    return seed % 3 == 2


def ordeal(seed: int, directory: Path) -> Outcome:
    """The outcome of that seed."""
    return Ordeal(seed, directory).run()


def check(outcome: Outcome) -> list[str]:
    """What is wrong with an outcome."""
    return [f"{kind}: {line}" for kind, lines in outcome.wrong.items() for line in lines]
