"""What programs may ask of a running crawl, besides its statistics, and give to it.

    GET  /api/hosts        the table of hosts, sorted, in parts
    GET  /api/hosts/HOST   one of them, with its robots.txt, its queue and its last records
    GET  /api/explain      what the crawl knows of a URL
    POST /api/urls         URLs for the crawl

Looks that may take long run in one thread beside the event loop, one after the other, and are broken off when the
crawl ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiohttp import web

from crawler.dashboard import json_body
from crawler.engine.run import Run
from crawler.frontier import Host, decode_host
from crawler.inspect.explanation import Known, explain, explain_seen
from crawler.inspect.host_table import choose, host_rows
from crawler.job.directory import PAGES
from crawler.job.inbox import MOST_URLS, Answer
from crawler.kv import Family
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
from crawler.settings import Settings
from crawler.urls import Canonical, Canonicaliser

T = TypeVar("T")

FRESH = 2.0  # seconds that a table of hosts is shown again instead of being read again ...
FRESH_TIMES = 20  # ... or so many times what reading it took
MOST_TABLES = 32  # kept at a time: each may be a thousand rows


class CrawlApi:
    """The routes. ``crawl`` gives the crawl, None before it begins."""

    def __init__(self, crawl: Callable[[], Run | None], settings: Settings, clock: Callable[[], float]) -> None:
        self._crawl = crawl
        self._settings = settings
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="api")
        self._closed = False
        self._adding: set[asyncio.Task[Answer]] = set()
        self._tables: dict[TableAsked, tuple[float, dict[str, Any]]] = {}
        self._reading: dict[TableAsked, asyncio.Task[dict[str, Any]]] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/hosts", self._hosts),
            web.get("/api/hosts/{host}", self._host),
            web.get("/api/explain", self._explain),
            web.post("/api/urls", self._urls),
        ]

    async def close(self) -> None:
        """Break off what is under way, between two steps of the job; to be called before the job is closed."""
        self._closed = True
        for adding in self._adding:
            adding.cancel()
        await asyncio.gather(*self._adding, return_exceptions=True)
        self._thread.shutdown(cancel_futures=True)

    def _running(self) -> Run:
        crawl = self._crawl()
        if crawl is None or self._closed:
            raise web.HTTPServiceUnavailable(text="The crawl is not running.")
        return crawl

    async def _look(self, steps: Iterator[T | None]) -> list[T]:
        """All that the iterator gives, in the thread."""

        def run() -> list[T] | None:
            found: list[T] = []
            for each in steps:
                if self._closed:
                    return None
                if each is not None:
                    found.append(each)
            return found

        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except RuntimeError as error:
            if not self._closed:
                raise
            raise web.HTTPServiceUnavailable(text="The crawl is not running.") from error
        if found is None:
            raise web.HTTPServiceUnavailable(text="The crawl is not running.")
        return found

    # -- hosts -------------------------------------------------------------------------------------------------

    async def _hosts(self, request: web.Request) -> web.Response:
        crawl, now = self._running(), self._clock()
        asked = table_asked(request)
        until, table = self._tables.get(asked, (0.0, {}))
        if until <= now:
            # Pages that lost the crawl come back at once: one reading serves all who ask the same.
            if asked not in self._reading:
                self._reading[asked] = asyncio.create_task(self._read(crawl, asked, now))
            table = await asyncio.shield(self._reading[asked])
        return answer(table)

    async def _read(self, crawl: Run, asked: TableAsked, now: float) -> dict[str, Any]:
        steps = choose(
            host_rows(crawl.job.store, self._settings, now, _in_flight(crawl), crawl.job.frontier.known),
            sort=asked.sort,
            descending=asked.descending,
            offset=asked.offset,
            limit=asked.limit,
            q=asked.q,
        )
        try:
            ((total, rows),) = await self._look(steps)
        finally:
            del self._reading[asked]
        table = {"total": total, "hosts": rows}
        took = self._clock() - now
        kept = [(key, value) for key, value in self._tables.items() if value[0] > now and key != asked]
        self._tables = dict([*kept, (asked, (now + max(FRESH, FRESH_TIMES * took), table))][-MOST_TABLES:])
        return table

    async def _host(self, request: web.Request) -> web.Response:
        crawl, now, name = self._running(), self._clock(), request.match_info["host"]
        host = crawl.job.frontier.known(name) or _stored_host(crawl, name)
        if host is None:
            raise no_such_host(name)
        row = host_page(crawl.job.store, self._settings, host, now, _in_flight(crawl)[name])
        row["recent"] = await self._look(recent(crawl.job.directory / PAGES, crawl.job.output.end, name))
        return answer(row)

    # -- one URL -----------------------------------------------------------------------------------------------

    async def _explain(self, request: web.Request) -> web.Response:
        crawl, text = self._running(), url_asked(request)
        job = crawl.job
        # The seen-set changes with every step: it is asked here, not in the thread.
        url = Canonicaliser(self._settings.canonical.rules).canonicalise(text)
        seen = [explain_seen(job.seen, url)] if isinstance(url, Canonical) else []
        known = Known(
            job.directory, self._settings, job.store, lambda _: seen[0], dict(crawl.under_way), job.frontier.known
        )
        (found,) = await self._look(explain(known, text, self._clock()))
        return answer(explained(found))

    async def _urls(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        urls = asked.get("urls") if isinstance(asked, dict) else None
        seed = asked.get("seed", False) if isinstance(asked, dict) else False
        if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls) or not isinstance(seed, bool):
            raise web.HTTPBadRequest(
                text='The body is {"urls": [text, ...]}, with "seed": true where they widen the scope.'
            )
        if len(urls) > MOST_URLS:
            raise web.HTTPBadRequest(text=f"At most {MOST_URLS} URLs at a time.")
        crawl = self._running()
        if crawl.job.blocked is not None:
            raise web.HTTPServiceUnavailable(text=f"The crawl is paused: {crawl.job.blocked}")
        adding = asyncio.create_task(crawl.incoming.take_in(urls, seed=seed))
        self._adding.add(adding)
        adding.add_done_callback(self._adding.discard)
        try:
            return answer((await adding).as_json())
        except asyncio.CancelledError:
            if not self._closed:
                raise
            raise web.HTTPServiceUnavailable(text="The crawl has ended: add them to the job once more.") from None


def _in_flight(crawl: Run) -> Counter[str]:
    return Counter(map(crawl.job.frontier.queue_of, crawl.under_way))


def _stored_host(crawl: Run, name: str) -> Host | None:
    stored = crawl.job.store.get(Family.HOSTS, name.encode("ascii")) if name.isascii() else None
    return None if stored is None else decode_host(name, stored)
