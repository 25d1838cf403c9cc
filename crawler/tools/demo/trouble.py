"""The demo's hosts that make trouble: one that is slow, one that is soon too busy, one that has every page many times.

Two more have no pages at all, see ``web.py``: nobody listens, or nobody answers.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence

from aiohttp import web

from crawler.tools.demo.html_answers import html_page, items, tagged

SLOW_PAGES = 24
SLOW_LEAST, SLOW_MOST = 1.0, 4.0  # seconds for an answer
BUSY_PAGES = 40
BUSY_ALLOWED = 8  # requests ...
BUSY_WINDOW = 15.0  # ... in this many seconds
_COPIES = 15  # pages of which the mirror has copies
_SESSIONS = 8  # requests without a session get one of so many


class Slow:
    """Answers late, each page after a time of its own. ``dead`` are addresses elsewhere to which it links."""

    def __init__(self, dead: Sequence[str], factor: float = 1.0) -> None:
        """``factor`` is for tests: how long the answers take, compared to the times above."""
        self._dead = dead
        self._factor = factor

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._front),
            web.get("/robots.txt", _robots),
            web.get("/archive/{number:[0-9]+}", self._page),
        ]

    async def _front(self, request: web.Request) -> web.Response:
        links = {f"/archive/{number}": f"Box {number}" for number in range(1, SLOW_PAGES + 1)}
        return tagged(request, html_page("A slow archive", items(links) + items(dict.fromkeys(self._dead, "Gone?"))))

    async def _page(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        share = zlib.crc32(request.path.encode()) % 1000 / 1000
        seconds = SLOW_LEAST + (SLOW_MOST - SLOW_LEAST) * share
        await asyncio.sleep(seconds * self._factor)
        if not 1 <= number <= SLOW_PAGES:
            return html_page("No such box", "<p>It is not here.", status=404)
        body = f'<p>It took {seconds:.1f} s to find this box. <a href="/">All boxes</a>'
        return tagged(request, html_page(f"Box {number}", body))


class Busy:
    """Answers 429 with Retry-After to what goes beyond its limit, and is fine again after that time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._window = 0.0
        self._asked = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._front),
            web.get("/robots.txt", _robots),
            web.get("/item/{number:[0-9]+}", self._page),
        ]

    def _wait(self) -> int:
        """Count a request, and return the seconds after which it may be sent again; 0 if it is answered."""
        now = self._clock()
        if now >= self._window + BUSY_WINDOW:
            self._window, self._asked = now, 0
        self._asked += 1
        return 0 if self._asked <= BUSY_ALLOWED else max(1, round(self._window + BUSY_WINDOW - now))

    async def _front(self, request: web.Request) -> web.Response:
        links = {f"/item/{number}": f"Item {number}" for number in range(1, BUSY_PAGES + 1)}
        return self._answer(request, html_page("A busy shop", items(links)))

    async def _page(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        if not 1 <= number <= BUSY_PAGES:
            return self._answer(request, html_page("No such item", "<p>It is sold.", status=404))
        body = f'<p>Item {number} costs {number * 7 % 50} coins. <a href="/">All items</a>'
        return self._answer(request, html_page(f"Item {number}", body))

    def _answer(self, request: web.Request, page: web.Response) -> web.Response:
        wait = self._wait()
        if not wait:
            return tagged(request, page)
        refusal = html_page("Too many requests", f"<p>Come back in {wait} s.", status=429)
        refusal.headers["Retry-After"] = str(wait)
        return refusal


class Mirror:
    """Has each page under many addresses: with a session id in every link of the start page, which itself has
    parameters that change nothing, and in a version for print. ``text(topic)`` is HTML about a topic."""

    def __init__(self, topics: Sequence[str], text: Callable[[str], str]) -> None:
        self._topics = topics[:_COPIES]
        self._text = text
        self._sessions = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._front),
            web.get("/robots.txt", _robots),
            web.get("/doc/{topic}", self._page),
            web.get("/print/{topic}", self._page),
        ]

    def _session(self, request: web.Request) -> str:
        """Return the session of the request; a new one if it has none."""
        given = request.query.get("sid", "")
        if given.isascii() and given.isalnum() and len(given) < 20:
            return given
        self._sessions += 1
        return f"{zlib.crc32(b'%d' % (self._sessions % _SESSIONS)):08x}"

    async def _front(self, request: web.Request) -> web.Response:
        sid = self._session(request)
        links = {f"/doc/{topic}?sid={sid}": topic for topic in self._topics}
        return html_page("A mirror", items(links))

    async def _page(self, request: web.Request) -> web.Response:
        topic = request.match_info["topic"]
        if topic not in self._topics:
            return html_page("No such page", "<p>It is not here.", status=404)
        # The same to the byte in all sessions.
        links = {f"/doc/{topic}": "Without a session", f"/print/{topic}": "Print", f"/?from={topic}": "Start"}
        return html_page(topic, self._text(topic) + ("" if request.path.startswith("/print/") else items(links)))


async def _robots(request: web.Request) -> web.Response:
    return web.Response(text="User-agent: *\nAllow: /\n")
