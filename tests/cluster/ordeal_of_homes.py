"""One crawl of three machines that follow each other's partitions, under random faults, from a single seed, in virtual
time. The faults are those of ``ordeal_of_members``, but instead of a loss of power a machine burns with its disk, and a
new one with an empty directory comes. That happens only while each partition has a replica in step: a second disk that
is lost before is more than one replica is for. And until the replicas have taken over, the carrier forgets nothing: it
alone knows which ones are in step, and without that word a partition waits for somebody to decide.

Stores are real ones, because replicas are copied and renamed."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from crawler.cluster.member_options import no_seeds
from crawler.job.directory import PAGES
from crawler.job.home_register import Home, read_homes
from crawler.kv import Batch
from crawler.store import PartitionStore
from tests.cluster.faulty_ways import FaultyLine, Way
from tests.cluster.members import Line, Working
from tests.cluster.ordeal_of_members import Fault, Faulty, Fragile, Ordeal, Outcome
from tests.cluster.witness import Witness
from tests.jobs import rows

IN_STEP = 30.0  # seconds that a fire waits for the last replica


class _Told(PartitionStore):
    """A store on the disk that tells a witness what is written to a partition. What a replica writes was told."""

    def __init__(self, path: Path, witness: Witness) -> None:
        super().__init__(path)
        self._told = path
        self._witness = witness
        self._is_replica = path.parent.parent.name != "partitions"

    def write(self, batch: Batch) -> None:
        if not self._is_replica:
            self._witness.writes(self._told, batch, self.get)
        super().write(batch)

    def sync(self) -> None:
        super().sync()
        if not self._is_replica:
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
            self.witness.taken_over(int(number), has)
        return Fragile(_Told(path, self.witness), line)

    def recorded(self) -> Counter[str]:
        """How often each URL is in the output, of each partition where it is at home."""
        homes: dict[int, Home] = {}
        for directory in self.directory.iterdir():
            for number, home in read_homes(directory).items():
                homes[number] = max(homes.get(number, home), home, key=lambda each: each.epoch)
        found = Counter[str]()
        for number, home in homes.items():
            path = self.directory / home.id / "partitions" / f"{number:02}"
            if (path / PAGES).exists():
                found.update(row["url"] for row in rows(path))
        return found


class OrdealOfHomes(Ordeal):
    """The faults of one crawl with replicas."""

    pace, seconds = 0.15, 150.0

    crawling: _Homes

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory)
        crawling = self.crawling
        self.crawling = _Homes(
            directory, crawling.pages, min(4, crawling.partitions), crawling.seeds, crawling.settings, replicas=1
        )
        self.crawling.last_home = {}
        self.crawling.chance, self.crawling.trouble = crawling.chance, crawling.trouble
        self.has_machines = True
        self._homes = [f"machine{at}" for at in range(3)]
        self._burnt = 0

    def faults(self) -> dict[str, Fault]:
        """As of members."""
        found = super().faults()
        del found["loss of power"]
        return {**found, "burn": self._burn, "burn again": self._burn}

    def _begin(self, at: int, name: str | None, expected: int = 1) -> Working:
        seeds = None if at == 0 else no_seeds
        return self.crawling.begin(name, expected=expected, home=self._homes[at], seeds=seeds)

    async def _forget(self, members: list[Working], at: int) -> bool:
        return not self._is_taking_over() and await super()._forget(members, at)

    async def _fail_over(self, members: list[Working], at: int) -> bool:
        return not self._is_taking_over() and await super()._fail_over(members, at)

    def _is_taking_over(self) -> bool:
        """Whether replicas are to take over, that only the carrier knows to be in step."""
        return bool(set(self.crawling.last_home.values()) - set(self._homes))

    async def _burn(self, members: list[Working], at: int) -> bool:
        """A machine is gone with its disk, and a new one comes, at once or after a while."""
        until = asyncio.get_running_loop().time() + IN_STEP
        while not self._may_burn(members):
            await asyncio.sleep(self.chance.uniform(0.1, 1.0))
            if asyncio.get_running_loop().time() > until or all(each.task.done() for each in members):
                return False
        self.crawling.loop.go_on(members[at].line)
        await members[at].kill()
        shutil.rmtree(self.crawling.directory / self._homes[at])
        self._burnt += 1
        self.crawling.witness.note("burnt", self._homes[at])
        self._homes[at] = f"new{self._burnt}"
        if self.chance.random() < 0.5:
            await asyncio.sleep(self.chance.uniform(0.0, 20.0))
        members[at] = self._begin(at, f"m{at}.{self._burnt}")
        return True

    def _may_burn(self, members: list[Working]) -> bool:
        """Whether each partition has a replica in step, and its owner knows the carrier and is known to it."""
        claims = self.crawling.holdings.__dict__["_claims"]
        followed = set[int]()
        for each in members:
            line = each.line
            assert isinstance(line, FaultyLine)
            if each.task.done() or line.is_cut or line.way is not Way.UP:
                continue
            for lag in each.member.replicas:
                claim = claims.get(f"p{lag.partition}")
                if lag.in_step and lag.home in self._homes and claim is not None and claim.holder == each.member.name:
                    followed.add(lag.partition)
        return len(followed) == self.crawling.partitions


def ordeal_of_homes(seed: int, directory: Path) -> Outcome:
    """The outcome of that seed."""
    return OrdealOfHomes(seed, directory).run()
