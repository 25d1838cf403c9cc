"""A job seen from outside, running or not, for as long as somebody looks: by ``crawler dashboard`` or ``crawler top``.

The files of the job are all that is asked. Of a crawl that runs that is ``live.json``, of one that does not the store
and the seen-set, read once and kept until a crawl begins. What a running crawl is to do is left for it as an order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from crawler.frontier import decode_host, queue_of
from crawler.inspect.explanation import explain_url
from crawler.inspect.host_table import Row, choose, host_rows
from crawler.inspect.job_reader import job_stats, open_job
from crawler.job.directory import PAGES, JobError, lock_holder, read_identity
from crawler.job.history_file import load_course
from crawler.job.live_status import Live, read_live
from crawler.kv import Family
from crawler.service.command_files import Refused, give_order
from crawler.service.control import NOT_RUNNING, asked_wrongly, control_routes
from crawler.service.responses import (
    TableAsked,
    answer,
    explained,
    host_page,
    no_such_host,
    recent,
    table_asked,
    url_asked,
)

T = TypeVar("T")

INTERVAL = 1.0  # seconds between two looks


@dataclass(frozen=True, slots=True)
class Reading:
    """What a look found. ``live`` is None when no crawl is running; ``stats`` are then the stored ones."""

    live: Live | None
    stats: dict[str, Any]


class JobView:
    """The job in a directory. ``look`` may run in a thread; all else belongs to one, the event loop's."""

    def __init__(self, directory: Path, now: float) -> None:
        """``now`` in seconds since 1970. Raises what ``job_stats`` raises."""
        read_identity(directory)
        self.directory = directory
        self.course = load_course(directory, now, tells=False)
        self._at = now
        self._reading = self.look()
        self.take(self._reading, now)

    @property
    def live(self) -> Live | None:
        return self._reading.live

    def look(self, before: Reading | None = None) -> Reading:
        """Read the job. Where no crawl is running, and none was ``before``, nothing can have changed."""
        live = read_live(self.directory)
        if live is not None:
            return Reading(live, dict(live.stats))
        if before is not None and before.live is None:
            return before
        return Reading(None, job_stats(self.directory))

    def look_again(self) -> Reading:
        return self.look(self._reading)

    def take(self, reading: Reading, now: float) -> None:
        """Show what a look found."""
        if reading.live is not None:
            self.course.events.restore(
                event for event in reading.live.events if event["number"] > self.course.events.last
            )
            self.course.observe(now, reading.stats)
        if reading is not self._reading or reading.live is not None:
            self._at = now
        self._reading = reading

    def stats(self, now: float) -> dict[str, Any]:
        """As ``stats --json``; the age of the checkpoint goes on."""
        stats = dict(self._reading.stats)
        if stats["checkpoint"] is not None:
            age = stats["checkpoint"]["age_seconds"] + max(0.0, now - self._at)
            stats["checkpoint"] = stats["checkpoint"] | {"age_seconds": age}
        return stats

    def hosts(self, asked: TableAsked, now: float) -> tuple[int, list[Row]]:
        """How many hosts there are, and the rows asked for. Raises what ``open_job`` raises."""
        with open_job(self.directory) as job:
            found = choose(
                host_rows(job.store, job.settings, now, self._in_flight()),
                sort=asked.sort,
                descending=asked.descending,
                offset=asked.offset,
                limit=asked.limit,
                q=asked.q,
            )
            return next(pair for pair in found if pair is not None)

    def host(self, name: str, now: float) -> dict[str, Any] | None:
        """All of one host; None when the job has met no such host. Raises what ``open_job`` raises."""
        with open_job(self.directory) as job:
            stored = job.store.get(Family.HOSTS, name.encode("ascii")) if name.isascii() else None
            if stored is None:
                return None
            page = host_page(job.store, job.settings, decode_host(name, stored), now, self._in_flight()[name])
        rows = recent(self.directory / PAGES, None if self.live is None else self.live.output_end, name)
        return page | {"recent": [row for row in rows if row is not None]}

    def explain(self, text: str, now: float) -> dict[str, Any]:
        """Raises what ``open_job`` raises."""
        return explained(explain_url(self.directory, text, now))

    def _in_flight(self) -> Counter[str]:
        return Counter(map(queue_of, {} if self.live is None else self.live.in_flight))


class JobApi:
    """What the dashboard of such a view is asked, besides its statistics. ``damage`` are the errors that say that the
    job cannot be read."""

    def __init__(self, view: JobView, clock: Callable[[], float], damage: tuple[type[Exception], ...]) -> None:
        self._view = view
        self._clock = clock
        self._unreadable: tuple[type[Exception], ...] = (*damage, JobError, OSError)
        # One after the other: each opens the store, and a seen-set takes memory.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="look")

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/hosts", self._hosts),
            web.get("/api/hosts/{host}", self._host),
            web.get("/api/explain", self._explain),
            *control_routes(self._control),
        ]

    async def keep(self) -> None:
        """Look again and again, until cancelled. Raises what ``job_stats`` raises."""
        while True:
            await asyncio.sleep(INTERVAL)
            reading = await self._in_thread(self._view.look_again)
            self._view.take(reading, self._clock())

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def _in_thread(self, look: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    async def _answer(self, look: Callable[[], T]) -> T:
        try:
            return await self._in_thread(look)
        except self._unreadable as error:
            # Who looks need not be who owns the machine: files are named as from the job's directory.
            directory = str(self._view.directory)
            why = str(error).replace(f"{directory}/", "").replace(directory, "the job's directory")
            raise web.HTTPInternalServerError(text=f"The job cannot be read: {why}") from error

    async def _control(self, asked: Any) -> Refused | None:
        """What was asked is left for the crawl, which answers."""
        refused = asked_wrongly(asked)
        if refused is not None:
            return refused
        pid = lock_holder(self._view.directory)
        if self._view.live is None or not pid:
            return NOT_RUNNING
        try:
            return await give_order(self._view.directory, pid, asked["do"], asked.get("host"))
        except OSError as error:
            return 409, f"the crawl cannot be told: {error.strerror}"

    async def _hosts(self, request: web.Request) -> web.Response:
        asked = table_asked(request)
        total, rows = await self._answer(lambda: self._view.hosts(asked, self._clock()))
        return answer({"total": total, "hosts": rows})

    async def _host(self, request: web.Request) -> web.Response:
        name = request.match_info["host"]
        page = await self._answer(lambda: self._view.host(name, self._clock()))
        if page is None:
            raise no_such_host(name)
        return answer(page)

    async def _explain(self, request: web.Request) -> web.Response:
        text = url_asked(request)
        return answer(await self._answer(lambda: self._view.explain(text, self._clock())))
