"""The HTTP API of a crawl, except for statistics.

    GET  /api/hosts        the table of hosts, sorted, in parts
    GET  /api/hosts/HOST   one host, with its robots.txt, its queue and its latest records
    GET  /api/explain      everything the crawl knows about a URL
    GET  /api/changes      the records after a cursor, with the change each makes to a copy of the site
    POST /api/control      a command: {"do": WORD}, with "host": HOST for a host command
    POST /api/urls         URLs to add to the crawl
    POST /api/retry        finished URLs to visit again
    POST /api/priority     a class for pending URLs that match a pattern

The dashboard's guard has already checked the token. A command is answered with {"done": true}, or with {"error": TEXT}
and the status of the refusal. The answer to "reload" also has "changed" and "restart": lists of settings.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial
from typing import Any

from aiohttp import web

from crawler.base.settings.parts import CLASSES
from crawler.inspect.host_table import SORTS, HostsAsked
from crawler.job.inbox import MOST_URLS, is_class
from crawler.job.output.changes import CursorError
from crawler.job.output.finished import Choice
from crawler.service.commands import Refused, Reloaded, parse_command
from crawler.service.dashboard.guard import NO_STORE, answer, json_body
from crawler.service.explanation_text import explanation_lines
from crawler.service.run_view import RunView
from crawler.service.source import SourceView
from crawler.service.view_answers import Encoded, Reused, answer_if_new, encoded, from_view
from crawler.url.scope.patterns import Pattern, PatternError
from crawler.url.urls.typed import completed

View = RunView | SourceView

FRESH = 2.0  # minimum seconds for which a table of hosts is reused ...
FRESH_TIMES = 20  # ... or this many times as long as the table took to read, if that is longer
MOST_TABLES = 32  # tables cached at a time: each may have a thousand rows
MOST_ROWS = 1_000  # hosts in one answer
MOST_CHANGES = 1_000  # records in one answer
MOST_OFFSET = 100_000  # maximum number of hosts that a request may skip: sorting holds their rows in memory


class Api:
    """The API routes, answered from a view."""

    def __init__(self, view: View) -> None:
        self.tables = lru_cache(MOST_TABLES)(self._table)  # the tables asked for most recently
        self._view = view

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/hosts", self._hosts),
            web.get("/api/hosts/{host}", self._host),
            web.get("/api/explain", self._explain),
            web.get("/api/changes", self._changes),
            web.post("/api/control", self._control),
            web.post("/api/urls", self._urls),
            web.post("/api/retry", self._retry),
            web.post("/api/priority", self._priority),
        ]

    async def _hosts(self, request: web.Request) -> web.Response:
        return answer_if_new(request, await from_view(self.tables(_table_asked(request)).get()))

    def _table(self, asked: HostsAsked) -> Reused[Encoded]:
        return Reused(partial(self._read_table, asked), FRESH, FRESH_TIMES)

    async def _read_table(self, asked: HostsAsked) -> Encoded:
        found = await self._view.hosts(asked)
        return encoded({"total": found.total, "hosts": found.rows})

    async def _host(self, request: web.Request) -> web.Response:
        name = request.match_info["host"]
        page = await from_view(self._view.host(name))
        if page is None:
            raise web.HTTPNotFound(text=f"No URL of {name} was admitted. Give the host with its port, as in a.test:80.")
        return answer(page)

    async def _explain(self, request: web.Request) -> web.Response:
        text = request.query.get("url")
        if not text:
            raise web.HTTPBadRequest(text="URL missing: use /api/explain?url=URL, percent-encoded.")
        found = await from_view(self._view.explain(completed(text) or text))
        lines = [{"what": what, "text": text} for what, text in explanation_lines(found)]
        return answer({"url": found.url, "href": found.href, "key": found.key, "host": found.host, "lines": lines})

    async def _changes(self, request: web.Request) -> web.Response:
        since, limit = request.query.get("since", "0"), _number(request, "limit", 100, MOST_CHANGES)
        try:
            lines = await from_view(self._view.changes(since, limit))
        except CursorError as error:
            raise web.HTTPBadRequest(text=f"{error}.") from error
        # The lines are JSON already: decoding and encoding a thousand of them would block the crawl.
        cursor = json.dumps(json.loads(lines[-1])["cursor"] if lines else since).encode("ascii")
        body = b'{"changes": [%b], "cursor": %b}' % (b", ".join(line.rstrip() for line in lines), cursor)
        return web.Response(body=body, content_type="application/json", charset="utf-8", headers=NO_STORE)

    async def _control(self, request: web.Request) -> web.Response:
        command = parse_command(await json_body(request))
        result = command if isinstance(command, Refused) else await from_view(self._view.perform(command))
        if isinstance(result, Refused):
            return web.json_response({"error": result.text}, status=result.why.status)
        return web.json_response({"done": True} | (result.as_json() if isinstance(result, Reloaded) else {}))

    async def _urls(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        urls = asked.get("urls") if isinstance(asked, dict) else None
        seed = asked.get("seed", False) if isinstance(asked, dict) else False
        if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls) or not isinstance(seed, bool):
            raise web.HTTPBadRequest(text='Send {"urls": [text, ...]}, with "seed": true to widen the scope to them.')
        if len(urls) > MOST_URLS:
            raise web.HTTPBadRequest(text=f"Send at most {MOST_URLS} URLs at a time.")
        priority = asked.get("priority")
        if priority is not None and not is_class(priority):
            raise web.HTTPBadRequest(text=_NO_CLASS)
        texts = [completed(url) or url for url in urls]
        taken = [{"url": url, "taken_as": text} for url, text in zip(urls, texts, strict=True) if text != url]
        added = await from_view(self._view.add(texts, seed=seed, priority=priority))
        return answer(added.as_json() | {"completed": taken})

    async def _retry(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        priority = asked.pop("priority", None) if isinstance(asked, dict) else None
        choice = _choice(asked)
        if priority is not None and not is_class(priority):
            raise web.HTTPBadRequest(text=_NO_CLASS)
        if choice is None or choice.is_empty:
            raise web.HTTPBadRequest(
                text='Send {"failed": true}, {"excluded": RULE}, {"host": HOST} or {"urls": [text, ...]}, or several.'
            )
        found = await from_view(self._view.put_back(choice, priority))
        return answer({"queued": found.admitted, "pending": found.known})

    async def _priority(self, request: web.Request) -> web.Response:
        asked = await json_body(request)
        pattern, priority = (asked.get("pattern"), asked.get("class")) if isinstance(asked, dict) else (None, None)
        if not isinstance(pattern, str) or not is_class(priority):
            raise web.HTTPBadRequest(text=f'Send {{"pattern": PATTERN, "class": 0 to {CLASSES - 1}}}.')
        try:
            Pattern(pattern)
        except PatternError as error:
            raise web.HTTPBadRequest(text=f"{pattern!r}: {error}") from error
        return answer({"moved": (await from_view(self._view.change_class(pattern, priority))).admitted})


_NO_CLASS = f'"priority" must be a class from 0 to {CLASSES - 1}.'


def _choice(asked: Any) -> Choice | None:
    """Return which finished URLs the request body selects; None if the body is invalid."""
    if not isinstance(asked, dict) or not asked.keys() <= {"failed", "excluded", "host", "urls"}:
        return None
    failed, excluded, host = asked.get("failed", False), asked.get("excluded"), asked.get("host")
    urls = asked.get("urls", [])
    words = all(each is None or (isinstance(each, str) and each) for each in (excluded, host))
    listed = isinstance(urls, list) and len(urls) <= MOST_URLS and all(isinstance(url, str) for url in urls)
    hrefs = frozenset(completed(url) or url for url in urls) if listed else frozenset()
    return Choice(failed, excluded, host, hrefs) if words and listed and isinstance(failed, bool) else None


def _table_asked(request: web.Request) -> HostsAsked:
    """Return the table that the query requests. Raises HTTPBadRequest."""
    sort, order = request.query.get("sort", "pending"), request.query.get("order", "desc")
    if sort not in SORTS or order not in ("asc", "desc"):
        raise web.HTTPBadRequest(text=f"sort must be one of {', '.join(SORTS)}, order asc or desc.")
    offset = _number(request, "offset", 0, MOST_OFFSET)
    limit = _number(request, "limit", 100, MOST_ROWS)
    return HostsAsked(sort, order == "desc", offset, limit, request.query.get("q", ""))


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= most):
        raise web.HTTPBadRequest(text=f"{name} must be a whole number up to {most}.")
    return int(text)
