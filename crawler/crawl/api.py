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
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiohttp import web

from crawler.crawl.explain import Known, explain, explain_seen
from crawler.crawl.hosts import SORTS, choose, host_row, host_rows
from crawler.crawl.identity import PAGES
from crawler.crawl.inbox import MOST_URLS
from crawler.crawl.look import queue
from crawler.crawl.lookback import decoded, lines_backwards
from crawler.crawl.loop import Crawl
from crawler.crawl.robots_cache import RobotsCache
from crawler.dashboard import json_body
from crawler.frontier import Family, Host, decode_host
from crawler.urls import Canonicaliser, Rejected, host_key

T = TypeVar("T")

MOST_ROWS = 1_000  # hosts in one answer
MOST_OFFSET = 100_000  # hosts passed over: so many rows are held while the table is sorted
FRESH = 2.0  # seconds that a table of hosts is shown again instead of being read again ...
FRESH_TIMES = 20  # ... or so many times what reading it took
_QUEUE_SHOWN = 50
_RECENT_SHOWN = 20
_RECENT_PIECES = 16  # MiB of output that are looked through for them


class CrawlApi:
    """The routes. ``crawl`` gives the crawl, None before it begins."""

    def __init__(self, crawl: Callable[[], Crawl | None], clock: Callable[[], float]) -> None:
        self._crawl = crawl
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="api")
        self._closed = False
        self._tables: dict[tuple[Any, ...], tuple[float, dict[str, Any]]] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/hosts", self._hosts),
            web.get("/api/hosts/{host}", self._host),
            web.get("/api/explain", self._explain),
            web.post("/api/urls", self._urls),
        ]

    def close(self) -> None:
        """Break off what is under way; to be called before the job is closed."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)

    def _running(self) -> Crawl:
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
        sort, order = request.query.get("sort", "pending"), request.query.get("order", "desc")
        if sort not in SORTS or order not in ("asc", "desc"):
            raise web.HTTPBadRequest(text=f"sort is one of {', '.join(SORTS)}; order is asc or desc.")
        offset = _number(request, "offset", 0, MOST_OFFSET)
        limit = _number(request, "limit", 100, MOST_ROWS)
        asked = (sort, order, offset, limit, request.query.get("q", ""))
        until, table = self._tables.get(asked, (0.0, {}))
        if until <= now:
            steps = choose(
                host_rows(crawl.job.store, crawl.settings, now, _in_flight(crawl), crawl.job.frontier.known),
                sort=sort,
                descending=order == "desc",
                offset=offset,
                limit=limit,
                q=asked[-1],
            )
            ((total, rows),) = await self._look(steps)
            table = {"total": total, "hosts": rows}
            took = self._clock() - now
            self._tables = {key: value for key, value in self._tables.items() if value[0] > now}
            self._tables[asked] = (now + max(FRESH, FRESH_TIMES * took), table)
        return _json(table)

    async def _host(self, request: web.Request) -> web.Response:
        crawl, now, name = self._running(), self._clock(), request.match_info["host"]
        host = crawl.job.frontier.known(name) or _stored_host(crawl, name)
        if host is None:
            raise web.HTTPNotFound(
                text=f"No URL of {name} was admitted: a host is named with its port, as in a.test:80."
            )
        row = host_row(host, now, _in_flight(crawl)[name], crawl.settings)
        robots = RobotsCache(crawl.job.store, crawl.settings.robots, crawl.settings.fetch.user_agent).get(name)
        row["robots"] = {
            "asked_at": None if robots is None else robots.asked_at,
            "status": None if robots is None else robots.status,
            "error": None if robots is None else robots.error,
            "crawl_delay": host.crawl_delay,
            "until": host.robots_until or None,
            "ignored": crawl.settings.robots.ignore,
        }
        entries = (entry for _, entry in itertools.islice(queue(crawl.job.store, name), _QUEUE_SHOWN))
        row["queue"] = [{"url": entry.href, "depth": entry.depth, "class": None} for entry in entries]
        row["recent"] = await self._look(_recent(crawl, name))
        return _json(row)

    # -- one URL -----------------------------------------------------------------------------------------------

    async def _explain(self, request: web.Request) -> web.Response:
        crawl, text = self._running(), request.query.get("url")
        if not text:
            raise web.HTTPBadRequest(text="Name the URL: /api/explain?url=URL, percent-encoded.")
        url = Canonicaliser(crawl.settings.canonical.rules).canonicalise(text)
        # The seen-set changes with every step: it is asked here, not in the thread.
        seen = [] if isinstance(url, Rejected) else explain_seen(crawl.job.seen, url)
        job = crawl.job
        known = Known(
            job.directory, crawl.settings, job.store, lambda _: seen, dict(crawl.under_way), job.frontier.known
        )
        lines = await self._look(explain(known, text, self._clock()))
        return _json(
            {
                "url": text,
                "href": None if isinstance(url, Rejected) else url.href,
                "key": None if isinstance(url, Rejected) else url.key,
                "host": None if isinstance(url, Rejected) else host_key(url.href),
                "lines": [dict(zip(("what", "text"), _parted(line), strict=True)) for line in lines],
            }
        )

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
        answer = await crawl.incoming.take_in(urls, seed=seed)
        return _json(answer.as_json())


def _in_flight(crawl: Crawl) -> Counter[str]:
    return Counter(map(host_key, crawl.under_way))


def _stored_host(crawl: Crawl, name: str) -> Host | None:
    stored = crawl.job.store.get(Family.HOSTS, name.encode("ascii")) if name.isascii() else None
    return None if stored is None else decode_host(name, stored)


def _recent(crawl: Crawl, name: str) -> Iterator[dict[str, Any] | None]:
    """The last records of the host, newest first."""
    start, pieces, shown = '{"url":"http', 0, 0
    words = name.rpartition(":")[0].encode("ascii")
    path = crawl.job.directory / PAGES
    for found in lines_backwards(path, crawl.job.output.end):
        if found is None:
            pieces += 1
            yield None
        elif found[1].startswith(start.encode("ascii")) and words in found[1]:
            record = decoded(*found, path.name)
            if host_key(record["url"]) == name:
                shown += 1
                yield record
        if pieces == _RECENT_PIECES or shown == _RECENT_SHOWN:
            return


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= most):
        raise web.HTTPBadRequest(text=f"{name} is a whole number up to {most}.")
    return int(text)


def _parted(line: str) -> tuple[str, str]:
    what, _, text = line.partition(": ")
    return what, text


def _json(content: dict[str, Any]) -> web.Response:
    return web.json_response(content, headers={"Cache-Control": "no-store"})
