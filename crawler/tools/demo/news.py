"""The demo's host that changes: a new story every few seconds, corrections to the last ones, old ones that go away.

Everything follows from the time, so that nothing need be stored: a demo that is resumed finds what has been published
in between. The number of pages that exist at a time is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.utils import formatdate

from aiohttp import web

from crawler.tools.demo.html_answers import html_page, items, tagged

PERIOD = 12.0  # seconds between two stories
FRONT = 12  # stories on the front page
KEPT = 50  # stories that still exist
CORRECTED = (25.0, 90.0, 240.0)  # ages of a story, in seconds, at which its text changes

_FEED_LINK = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'


class News:
    """``topics`` are what stories are about; ``page_of(topic)`` is the address of a page about it, elsewhere. ``clock``
    returns seconds since 1970, and the first stories are from just before ``began``."""

    def __init__(
        self, topics: Sequence[str], page_of: Callable[[str], str], clock: Callable[[], float], began: float
    ) -> None:
        self._topics = topics
        self._page_of = page_of
        self._clock = clock
        self._began = began - FRONT * PERIOD

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._front),
            web.get("/robots.txt", self._robots),
            web.get("/feed.xml", self._feed),
            web.get("/clock", self._time),
            web.get("/about", self._about),
            web.get("/{topic}/{number:[0-9]+}", self._story),
        ]

    def path(self, number: int) -> str:
        """Return the path of a story."""
        return f"/{self._topic(number)}/{number}"

    def newest(self) -> int:
        """Return the number of the story that was published last."""
        return int((self._clock() - self._began) / PERIOD)

    def _topic(self, number: int) -> str:
        return self._topics[number * 7 % len(self._topics)]  # neighbours in the alphabet look alike

    def _title(self, number: int) -> str:
        return f"Story {number}: {self._topic(number)}"

    def _last(self, count: int) -> range:
        newest = self.newest()
        return range(newest, max(newest - count, 0), -1)

    async def _front(self, request: web.Request) -> web.Response:
        stories = {self.path(number): self._title(number) for number in self._last(FRONT)}
        fixed = items({"/about": "About", "/clock": "What time is it?"})
        return tagged(request, html_page("News", items(stories) + fixed, head=_FEED_LINK))

    async def _story(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        newest = self.newest()
        if not 0 < number <= newest or request.match_info["topic"] != self._topic(number):
            return html_page("No such story", "<p>There is no story here.", status=404)
        if number <= newest - KEPT:
            return html_page(self._title(number), "<p>This story was taken down.", status=410)
        topic, age = self._topic(number), self._clock() - self._began - number * PERIOD
        corrections = "".join(
            f"<p>Correction {at}: what was said of {topic} was wrong."
            for at, due in enumerate(CORRECTED, 1)
            if age >= due
        )
        links = {self._page_of(topic): f"Documentation of {topic}", "/": "Front page"}
        if number > 1:
            links[self.path(number - 1)] = self._title(number - 1)
        words = f"<p>Today the {number}th thing was found out about {topic}. It is told in as many words as it needs."
        return tagged(request, html_page(self._title(number), words + corrections + items(links)))

    async def _feed(self, request: web.Request) -> web.Response:
        origin = f"http://{request.host}"
        stories = "".join(
            f"<item><title>{self._title(number)}</title><link>{origin}{self.path(number)}</link>"
            f"<pubDate>{formatdate(self._began + number * PERIOD, usegmt=True)}</pubDate></item>"
            for number in self._last(FRONT)
        )
        text = f'<rss version="2.0"><channel><title>News</title><link>{origin}/</link>{stories}</channel></rss>'
        return tagged(request, web.Response(text=text, content_type="application/rss+xml", charset="utf-8"))

    async def _time(self, request: web.Request) -> web.Response:
        return html_page("What time is it?", f"<p>It is {formatdate(self._clock(), usegmt=True)}.")

    async def _about(self, request: web.Request) -> web.Response:
        return tagged(request, html_page("About", '<p>This page never changes. <a href="/">Front page</a>'))

    async def _robots(self, request: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nAllow: /\n")
