"""Several runs over jobs of their own in one worker, in virtual time: they come and go while it drives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from crawler.base.kv import Family
from crawler.base.settings.parts import Settings
from crawler.engine.membership import Membership
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.web.fetch import Failure, Response
from tests.driving import Unwatched
from tests.durability.power import Inline
from tests.jobs import rows
from tests.laboratory import SETTINGS, START, VirtualLoop
from tests.memory_store import MemoryStore
from tests.simulated_web import Answer, SimulatedWeb

T = TypeVar("T")


@dataclass
class Fleet:
    """A directory of jobs, their web, and what it was asked for. ``live`` runs a test of them."""

    directory: Path
    pages: dict[str, Answer]
    settings: Settings = field(default_factory=lambda: SETTINGS)
    seconds: float = 0.2  # of a response
    asked: list[str] = field(default_factory=list)  # in order
    answered: list[str] = field(default_factory=list)
    answers: Callable[[str], Response | Failure | None] = lambda _: None  # what a request gets instead of its page
    stores: dict[str, MemoryStore] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)  # those that are open

    def live(self, test: Callable[[Worker], Coroutine[Any, Any, T]]) -> T:
        """Run a test beside a worker that serves. It ends the runs that it has begun."""
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(self._live(test))

    async def _live(self, test: Callable[[Worker], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        self.clock = lambda: START + loop.time()
        fleet = self

        class Web(SimulatedWeb):
            async def fetch(self, href: str, **wanted: Any) -> Response | Failure:
                fleet.asked.append(href)
                instead = fleet.answers(href)
                if instead is not None:
                    await asyncio.sleep(fleet.seconds)
                    return instead
                answer = await super().fetch(href, **wanted)
                fleet.answered.append(href)
                return answer

        async def before(_: str) -> None:
            await asyncio.sleep(self.seconds)

        worker = Worker(Web(self.pages, before), self.settings, self.clock, Unwatched())
        serving = asyncio.create_task(worker.serve())
        try:
            result = await test(worker)
            worker.end()
            await serving
            return result
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            for name in list(self.jobs):
                self.close(name)

    def begin(
        self,
        worker: Worker,
        name: str,
        *seeds: str,
        member: Membership | None = None,
        partition: tuple[int, int] | None = None,
    ) -> Run:
        """Open a job, or open it again, and have the worker drive it."""
        store = self.stores.setdefault(name, MemoryStore())
        platform = Platform(open_store=lambda _: store, executor=Inline, partition=partition)
        self.jobs[name] = job = Job(self.directory / name, self.settings, self.clock(), platform)
        run = Run(job, self.settings, worker.context, _only(seeds), member=member)
        worker.add(run)
        return run

    def close(self, name: str) -> None:
        self.jobs.pop(name).close()

    def recorded(self, name: str) -> Counter[str]:
        """How often each URL is in the output of a job."""
        return Counter(row["url"] for row in rows(self.directory / name))


async def _only(seeds: tuple[str, ...]) -> AsyncIterator[list[str]]:
    yield list(seeds)


async def until(true: Callable[[], bool]) -> None:
    """Wait for at most a thousand seconds of virtual time."""
    async with asyncio.timeout(1_000):
        while not true():  # noqa: ASYNC110 (virtual time)
            await asyncio.sleep(0.05)


def contents(store: MemoryStore) -> dict[Family, list[tuple[bytes, bytes]]]:
    """All rows."""
    return {family: store.scan(family, b"") for family in Family}
