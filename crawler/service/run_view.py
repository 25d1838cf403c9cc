"""Answers requests to the HTTP API about a crawl in this process.

Reads that may take long run one by one in a separate thread, and are abandoned when the crawl ends.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.run import Run, pause_text
from crawler.frontier.entry import queue_of
from crawler.inspect.explanation import CrawlNow, Explanation, Known, explain, explain_seen
from crawler.inspect.host_table import Chosen, HostsAsked, Row, Selection, Table, chosen_hosts, host_rows, told_by
from crawler.inspect.hosts_now import HostsNow
from crawler.inspect.record_stream import Tail
from crawler.job.directory import PAGES
from crawler.job.inbox import MOST_URLS, Answer, Inbox
from crawler.job.output import lines_of
from crawler.job.output.finished import Choice, select
from crawler.service.background import OneThread
from crawler.service.commands import Command, Perform, Result
from crawler.service.host_page import host_page, recent
from crawler.service.view_errors import Unavailable
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

T = TypeVar("T")

_HOSTS_AT_ONCE = 256  # hosts described in one chunk, which takes a few milliseconds of the event loop
_POLL = 0.1  # seconds between two checks for an answer in the inbox
_NOT_DURABLE = "No record is durable yet: try again in a second."
_NOT_RUNNING = "The crawl is not running."


class RunView:
    """The view of a run. ``run()`` returns the run, or None before it exists; ``perform`` carries out commands."""

    def __init__(
        self, run: Callable[[], Run | None], perform: Perform, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self._run = run
        self._perform = perform
        self._settings = settings  # for explanations
        self._sites = Sites(settings)
        self._clock = clock
        self._thread = OneThread("api")
        self._closed = False
        self._adding: set[asyncio.Task[Answer]] = set()

    def change(self, settings: Settings) -> None:
        """Use other settings for tables and explanations."""
        self._settings, self._sites = settings, Sites(settings)

    async def close(self) -> None:
        """Abandon the reads in progress, between two of their steps. Call it before the job is closed."""
        self._closed = True
        for adding in self._adding:
            adding.cancel()
        await asyncio.gather(*self._adding, return_exceptions=True)
        self._thread.close()

    async def settings(self) -> Settings:
        return self._settings

    async def hosts(self, asked: HostsAsked) -> Table:
        run, now = self._running(), self._clock()
        frontier, sites, stored = run.job.frontier, self._sites, run.job.store.pages(Family.HOSTS)
        selection = Selection(asked, told_by(asked.sort))
        beside = HostsNow(run.job.store, frontier.busy_hosts, serving=run.serving)
        while page := await self._in_thread(lambda: next(stored, [])):
            wanted = chosen_hosts(page, sites, beside, selection.wants)
            async for rows in self._described(run, wanted, now, beside):
                selection.add(rows)
        return selection.table()

    async def all_hosts(self) -> AsyncGenerator[list[Row]]:
        run, now, sites = self._running(), self._clock(), self._sites
        beside = HostsNow(run.job.store, run.job.frontier.busy_hosts, serving=run.serving)
        stored = run.job.store.pages(Family.HOSTS)
        hosts = (host for page in stored for host in chosen_hosts(page, sites, beside))
        async for rows in self._described(run, hosts, now, beside):
            yield list(rows)

    async def _described(
        self, run: Run, hosts: Iterator[Chosen], now: float, beside: HostsNow
    ) -> AsyncGenerator[Iterator[Row]]:
        """Yield the rows of hosts in chunks."""
        frontier, sites = run.job.frontier, self._sites
        while chosen := await self._in_thread(lambda: list(itertools.islice(hosts, _HOSTS_AT_ONCE))):
            # The frontier is read here, not in the thread.
            names = (host.name for host in chosen)
            working = {name: row for name in names if (row := frontier.describe_known(name, now, beside.serving))}
            yield host_rows(chosen, sites, now, beside, working)

    async def host(self, name: str) -> dict[str, Any] | None:
        run, now = self._running(), self._clock()
        host = run.job.frontier.snapshot(name, now, run.serving)
        if host is None:
            return None
        read = functools.partial(host_page, run.job.store, self._sites, host)
        row = await self._in_thread(read)
        return row | {
            "recent": await self._look(recent(run.job.directory / PAGES, run.job.files.outputs.pages.end, name))
        }

    async def explain(self, text: str) -> Explanation:
        run = self._running()
        job = run.job
        # The seen-set changes with every transaction, so ask it here, not in the thread.
        url = Canonicaliser(self._settings.canonical.rules).canonicalise(text)
        seen = [explain_seen(job.seen, url)] if isinstance(url, Canonical) else []
        older = job.older_sets_that_know(url) if isinstance(url, Canonical) else []
        now = self._clock()
        name = queue_of(url.href) if isinstance(url, Canonical) else None
        host = None if name is None else job.frontier.snapshot(name, now, run.serving)
        known = Known(
            job.directory,
            self._settings,
            job.seen.hash,
            job.store,
            lambda _: seen[0],
            lambda _: host,
            crawl_now(run),
            lambda _: older,
            self._check_open,
        )
        return await self._in_thread(lambda: explain(known, text, now))

    async def changes(self, since: str, limit: int) -> list[bytes]:
        job = self._running().job
        end = job.promises.end
        if end is None:
            raise Unavailable(_NOT_DURABLE)

        def read() -> list[bytes]:
            tail = Tail(job.directory, end=lambda: end)
            tail.resume(since)
            return list(itertools.islice(tail.changes(), limit))

        return await self._in_thread(read)

    async def perform(self, command: Command) -> Result:
        return await self._perform(command)

    async def add(self, urls: Sequence[str], *, seed: bool, priority: int | None = None) -> Answer:
        run = self._writing()
        adding = asyncio.create_task(run.incoming.take_in(urls, seed=seed, priority=priority))
        self._adding.add(adding)
        adding.add_done_callback(self._adding.discard)
        try:
            return await adding
        except asyncio.CancelledError:
            if not self._closed:
                raise
            raise Unavailable("The crawl has ended: add the URLs again.") from None

    async def put_back(self, choice: Choice, priority: int | None = None) -> Answer:
        job = self._writing().job
        if (end := job.promises.end) is None:
            raise Unavailable(_NOT_DURABLE)
        canonicaliser = Canonicaliser(self._settings.canonical.rules)
        hrefs = [canonicaliser.canonicalise(url) for url in choice.hrefs]
        if hrefs:
            # A string that is not a URL must match no record, so it becomes an empty string.
            named = [url.href if isinstance(url, Canonical) else "" for url in hrefs]
            choice = replace(choice, hrefs=frozenset(named))
        path = job.directory / PAGES
        pasts = await self._look(select(lambda: (line for _, line in lines_of(path, end)), choice))
        # Like `crawler retry`, use the inbox: it keeps requests across a crash, and queues no URL twice.
        answer = Answer()
        for start in range(0, len(pasts), MOST_URLS):
            part = pasts[start : start + MOST_URLS]
            answer += await self._through_inbox(
                functools.partial(Inbox.put_back, again=part, answer=True, priority=priority)
            )
        return answer

    async def change_class(self, pattern: str, priority: int) -> Answer:
        self._writing()
        return await self._through_inbox(
            functools.partial(Inbox.change_class, pattern=pattern, priority=priority, answer=True)
        )

    async def _through_inbox(self, leave: Callable[[Inbox], str]) -> Answer:
        """Leave a request in the inbox and wait for the answer."""
        job = self._running().job
        inbox = Inbox(job.directory, job.disk)
        name = await asyncio.to_thread(leave, inbox)  # this syncs a file, which blocks
        while (given := inbox.answer(name)) is None:
            await asyncio.sleep(_POLL)
            self._running()
        return given

    def _running(self) -> Run:
        run = self._run()
        if run is None or self._closed:
            raise Unavailable(_NOT_RUNNING)
        return run

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(_NOT_RUNNING)

    def _writing(self) -> Run:
        """Return the run if it can make changes now. Raises Unavailable."""
        run = self._running()
        if run.job.blocked is not None:
            raise Unavailable(f"The crawl is paused: {run.job.blocked}")
        return run

    async def _look(self, steps: Iterator[T | None]) -> list[T]:
        """Run the iterator in the thread and return all values it yields."""

        def read() -> list[T]:
            found: list[T] = []
            for each in steps:
                self._check_open()
                if each is not None:
                    found.append(each)
            return found

        return await self._in_thread(read)

    async def _in_thread(self, read: Callable[[], T]) -> T:
        try:
            found = await self._thread.run(read)
        except RuntimeError as error:
            if not self._closed:
                raise
            raise Unavailable(_NOT_RUNNING) from error
        self._check_open()
        return found


def crawl_now(run: Run) -> CrawlNow:
    """Return the state of a run that an explanation of a URL needs."""
    return CrawlNow(
        dict(run.visitor.under_way),
        dict(run.visitor.side_requests),
        None if run.paused is None else pause_text(run.paused),
        run.slots,
        run.gauges.proxies.failing,
    )
