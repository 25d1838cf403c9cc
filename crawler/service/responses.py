"""What ``/api/hosts``, ``/api/hosts/HOST`` and ``/api/explain`` answer, of a running crawl and of a job at rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from crawler.fetch.robots_cache import RobotsCache
from crawler.frontier import Host, queue_of
from crawler.inspect.explanation import Explanation
from crawler.inspect.host_table import SORTS, host_row
from crawler.inspect.job_reader import queue
from crawler.kv import Reader
from crawler.output.reverse_reader import decoded, lines_backwards
from crawler.service.explanation_text import explanation_lines
from crawler.settings import Settings

MOST_ROWS = 1_000  # hosts in one answer
MOST_OFFSET = 100_000  # hosts passed over: so many rows are held while the table is sorted
_QUEUE_SHOWN = 50
_RECENT_SHOWN = 20
_RECENT_PIECES = 16  # MiB of output that are looked through for them


@dataclass(frozen=True, slots=True)
class TableAsked:
    """Which part of the table of hosts, in which order."""

    sort: str
    descending: bool
    offset: int
    limit: int
    q: str


def table_asked(request: web.Request) -> TableAsked:
    """What the query says. Raises HTTPBadRequest."""
    sort, order = request.query.get("sort", "pending"), request.query.get("order", "desc")
    if sort not in SORTS or order not in ("asc", "desc"):
        raise web.HTTPBadRequest(text=f"sort is one of {', '.join(SORTS)}; order is asc or desc.")
    offset = _number(request, "offset", 0, MOST_OFFSET)
    limit = _number(request, "limit", 100, MOST_ROWS)
    return TableAsked(sort, order == "desc", offset, limit, request.query.get("q", ""))


def url_asked(request: web.Request) -> str:
    """The URL to explain. Raises HTTPBadRequest."""
    text = request.query.get("url")
    if not text:
        raise web.HTTPBadRequest(text="Name the URL: /api/explain?url=URL, percent-encoded.")
    return text


def host_page(store: Reader, settings: Settings, host: Host, now: float, in_flight: int) -> dict[str, Any]:
    """All of one host but its last records."""
    row = host_row(host, now, in_flight, settings)
    robots = RobotsCache(store, settings.robots, settings.fetch.user_agent).get(host.name)
    row["robots"] = {
        "asked_at": None if robots is None else robots.asked_at,
        "status": None if robots is None else robots.status,
        "error": None if robots is None or robots.failure is None else robots.failure.text,
        "crawl_delay": host.politeness.crawl_delay,
        "until": host.politeness.robots_until or None,
        "ignored": settings.robots.ignore,
    }
    entries = (entry for _, entry in itertools.islice(queue(store, host.name), _QUEUE_SHOWN))
    row["queue"] = [{"url": entry.href, "depth": entry.depth, "class": entry.priority} for entry in entries]
    return row


def no_such_host(name: str) -> web.HTTPNotFound:
    return web.HTTPNotFound(text=f"No URL of {name} was admitted: a host is named with its port, as in a.test:80.")


def recent(path: Path, end: int | None, name: str) -> Iterator[dict[str, Any] | None]:
    """The last records of the host in front of ``end`` (all), newest first; None where a look may be broken off."""
    start, pieces, shown = b'{"url":"http', 0, 0
    words = name.rpartition(":")[0].encode("ascii")
    for found in lines_backwards(path, end):
        if found is None:
            pieces += 1
            yield None
        elif found[1].startswith(start) and words in found[1]:
            record = decoded(*found, path.name)
            if queue_of(record["url"]) == name:
                shown += 1
                yield record
        if pieces == _RECENT_PIECES or shown == _RECENT_SHOWN:
            return


def explained(found: Explanation) -> dict[str, Any]:
    return {
        "url": found.url,
        "href": found.href,
        "key": found.key,
        "host": found.host,
        "lines": [{"what": what, "text": text} for what, text in explanation_lines(found)],
    }


def answer(content: dict[str, Any]) -> web.Response:
    return web.json_response(content, headers={"Cache-Control": "no-store"})


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= most):
        raise web.HTTPBadRequest(text=f"{name} is a whole number up to {most}.")
    return int(text)
