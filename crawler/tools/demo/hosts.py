"""The hosts of the demo and their responses."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from aiohttp import ETag, web

SLOW_PAGES = 16
SLOW_LEAST, SLOW_MOST = 1.0, 4.0  # seconds per response
BUSY_PAGES = 24
BUSY_ALLOWED = 8  # requests allowed per window
BUSY_WINDOW = 15.0  # seconds of the window
SESSIONS = ("5f1c", "9a30", "d772")  # session IDs of the mirror; every page exists in each session
PERIOD = 12.0  # seconds between two stories
FRONT = 12  # number of stories on the front page
KEPT = 50  # number of the newest stories that still exist
CORRECTED = (25.0, 90.0, 240.0)  # ages of a story, in seconds, at which its text changes

_HOST = re.compile(r"http://([a-z]+)\.localhost")
_SUBJECTS = ("harbour", "library", "old bridge", "night train", "lighthouse", "market hall", "botanical garden")
_EVENTS = ("opens again", "closes for repairs", "is painted green", "breaks a record", "celebrates", "is for sale")


def page(title: str, body: str, status: int = 200) -> web.Response:
    """Return an HTML response. ``title`` and ``body`` are HTML."""
    head = f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
    text = f"<!doctype html>\n{head}\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
    return web.Response(status=status, text=text, content_type="text/html")


def missing() -> web.Response:
    return page("Not found", "<p>There is no such page.", 404)


def links(paths: Iterable[str]) -> str:
    return "<ul>" + "".join(f'<li><a href="{path}">{path}</a>' for path in paths) + "</ul>"


def tagged(request: web.Request, response: web.Response) -> web.Response:
    """Return the response with the entity tag of its body, or a 304 response if the request contains that tag."""
    assert isinstance(response.body, bytes)
    tag = ETag(f"{zlib.crc32(response.body):08x}")
    if request.if_none_match and tag in request.if_none_match:
        response = web.Response(status=304)
    response.etag = tag
    return response


class Pages:
    """Serves a folder. ``origin(NAME)`` replaces ``http://NAME.localhost`` in its pages."""

    def __init__(self, folder: Path, origin: Callable[[str], str]) -> None:
        self.files = {f"/{path.relative_to(folder)}": path for path in sorted(folder.rglob("*")) if path.is_file()}
        self._origin = origin

    async def handle(self, request: web.Request) -> web.Response:
        return self.answer(request, request.path)

    def answer(self, request: web.Request, path: str) -> web.Response:
        if path.startswith("/archive/"):
            return page("Gone", "<p>This note was removed.", 410)
        if path.startswith("/old/"):
            return web.Response(status=301, headers={"Location": path.removeprefix("/old")})
        file = self.files.get(f"{path}index.html" if path.endswith("/") else path)
        if file is None:
            return missing()
        text = _HOST.sub(lambda found: self._origin(found[1]), file.read_text("utf-8"))
        kind = "text/plain" if file.suffix == ".txt" else "text/html"
        return tagged(request, web.Response(text=text, content_type=kind))


class Mirror(Pages):
    """Serves each page of a folder at many addresses: one for every session, and print versions."""

    async def handle(self, request: web.Request) -> web.Response:
        first, _, rest = request.path[1:].partition("/")
        if not first:
            names = [path for path in self.files if path.endswith(".html")]
            copies = [f"/doc{path}?sid={session}" for session in SESSIONS for path in names]
            return tagged(request, page("A mirror", links([*copies, *(f"/print{path}" for path in names)])))
        return self.answer(request, f"/{rest}") if first in ("doc", "print") else missing()


class News:
    """Publishes a new story every few seconds, corrects recent ones and deletes old ones.

    Everything is computed from ``clock``, which returns seconds since 1970, so a resumed demo shows the stories
    published in the meantime. The first stories were published just before ``began``. The number of existing pages is
    bounded.
    """

    def __init__(self, clock: Callable[[], float], began: float) -> None:
        self._clock = clock
        self._began = began - FRONT * PERIOD

    async def handle(self, request: web.Request) -> web.Response:
        newest = int((self._clock() - self._began) / PERIOD)
        if request.path == "/":
            last = range(newest, max(newest - FRONT, 0), -1)
            items = "".join(f'<li><a href="/story/{number}">{self._title(number)}</a>' for number in last)
            return tagged(request, page("News", f"<ul>{items}</ul>"))
        word = request.path.removeprefix("/story/")
        if not re.fullmatch(r"[0-9]{1,9}", word) or not 0 < int(word) <= newest:
            return missing()
        if int(word) <= newest - KEPT:
            return page(self._title(int(word)), "<p>This story was taken down.", 410)
        return tagged(request, self._story(int(word)))

    def _title(self, number: int) -> str:
        return f"The {_SUBJECTS[number % len(_SUBJECTS)]} {_EVENTS[number % len(_EVENTS)]}"

    def _story(self, number: int) -> web.Response:
        age = self._clock() - self._began - number * PERIOD
        body = f"<p>Story {number}. {self._title(number)}, as was announced today."
        for at, due in enumerate(CORRECTED, 1):
            body += f"<p>Correction {at}: an earlier version of this story had a wrong date." if age >= due else ""
        before = f'<a href="/story/{number - 1}">The story before</a>, ' if number > 1 else ""
        return page(self._title(number), f'{body}<p>{before}<a href="/">front page</a>')


class Slow:
    """Responds late, with a different delay for each page. ``lost`` contains dead links to other hosts."""

    def __init__(self, lost: Iterable[str]) -> None:
        self._lost = lost

    async def handle(self, request: web.Request) -> web.Response:
        boxes = [f"/box/{number}" for number in range(1, SLOW_PAGES + 1)]
        if request.path == "/":
            return tagged(request, page("A slow archive", links([*boxes, *self._lost])))
        if request.path not in boxes:
            return missing()
        share = zlib.crc32(request.path.encode()) % 1000 / 1000
        seconds = SLOW_LEAST + (SLOW_MOST - SLOW_LEAST) * share
        await asyncio.sleep(seconds)
        return tagged(request, page(request.path, f'<p>Found in {seconds:.1f} s. <a href="/">All boxes</a>'))


class Busy:
    """Responds 429 with Retry-After to requests above its limit, and responds normally again after that time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._window = 0.0
        self._asked = 0

    async def handle(self, request: web.Request) -> web.Response:
        now = self._clock()
        if now >= self._window + BUSY_WINDOW:
            self._window, self._asked = now, 0
        self._asked += 1
        if self._asked > BUSY_ALLOWED:
            wait = str(max(1, round(self._window + BUSY_WINDOW - now)))
            refusal = page("Too many requests", f"<p>Come back in {wait} s.", 429)
            refusal.headers["Retry-After"] = wait
            return refusal
        items = [f"/item/{number}" for number in range(1, BUSY_PAGES + 1)]
        if request.path == "/":
            return tagged(request, page("A busy shop", links(items)))
        if request.path not in items:
            return missing()
        return tagged(request, page(request.path, '<p>It is in stock. <a href="/">All items</a>'))
