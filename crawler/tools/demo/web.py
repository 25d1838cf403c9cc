"""All hosts of the demo: the documentation, and hosts that a crawler meets elsewhere.

docs-1 to docs-4   the documentation of the standard library
news               changes: new stories, corrections, stories that go away
slow               takes seconds for each answer
busy               answers 429 with Retry-After when it is asked too often
mirror             has each page under many addresses
dead               nobody listens on its port
silent             takes connections and never answers
"""

from __future__ import annotations

import asyncio
import html
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from aiohttp import web
from msgspec import Struct, field

from crawler.tools.demo.modules import MODULES
from crawler.tools.demo.news import News
from crawler.tools.demo.site import DOMAIN, HOST, DemoSite
from crawler.tools.demo.trouble import Busy, Mirror, Slow

DOCS = 4  # hosts with the documentation
OTHERS = {
    "news": "its pages change: new stories, corrections, stories that go away",
    "slow": "takes seconds for each answer",
    "busy": "answers 429 (too many requests) now and then",
    "mirror": "has the same pages under many addresses",
    "dead": "does not listen",
    "silent": "takes connections and never answers",
}
_LISTENING = ("news", "slow", "busy", "mirror", "silent")
_LOST = ("", "minutes.html", "members.html", "rules.html", "2019/plan.html", "2020/plan.html")  # on those that are gone
# Below the ports that systems give to programs that connect, so that they are free when the demo resumes.
_PORTS = range(20_000, 32_000 - DOCS - len(OTHERS))
_ATTEMPTS = 50


class Place(Struct, frozen=True):
    """Where the web is: ports of the documentation and of the other hosts, by their names, and since when (seconds
    since 1970). The demos of earlier versions have no other hosts."""

    docs: tuple[int, ...]
    others: Mapping[str, int] = field(default_factory=dict)
    began: float = 0.0


class DemoWeb:
    """The web, with pages of the documentation below the folder ``cache``. ``clock`` returns seconds since 1970."""

    def __init__(self, cache: Path, clock: Callable[[], float], place: Place | None = None) -> None:
        """``place`` is where it was before."""
        self.docs = DemoSite(cache, named=place is None or bool(place.others))
        self._clock = clock
        self._place = place
        self._stack = AsyncExitStack()

    @property
    def seeds(self) -> list[str]:
        """The start page of every host."""
        return [*self.docs.seeds, *(self._url(name) for name in self.place.others)]

    @property
    def place(self) -> Place:
        """Where it is, once it has started."""
        assert self._place is not None
        return self._place

    async def start(self) -> None:
        """Serve it, at its place if it has one. Raises OSError if a port is in use or the pages cannot be stored; then
        nothing stays bound."""
        async with self._stack:
            place = self._place
            found = _bind_anywhere(self._clock()) if place is None else (place, _bind(place.others))
            self._place, sockets = found
            with ExitStack() as unused:
                for each in sockets.values():
                    unused.callback(each.close)
                await self.docs.start(self._place.docs)
                self._stack.push_async_callback(self.docs.stop)
                await self._serve(sockets)
                unused.pop_all()
            self._stack = self._stack.pop_all()

    async def stop(self) -> None:
        await self._stack.aclose()

    def _url(self, name: str, path: str = "") -> str:
        return f"http://{name}.{DOMAIN}:{self.place.others[name]}/{path}"

    async def _serve(self, sockets: Mapping[str, socket.socket]) -> None:
        if not sockets:
            return
        self.docs.elsewhere = {self._url(name): f"{name}: {words}" for name, words in OTHERS.items()}
        lost = [self._url(name, path) for name in ("dead", "silent") for path in _LOST]
        routes = {
            "news": News(MODULES, self.docs.url, self._clock, self.place.began).routes(),
            "slow": Slow(lost).routes(),
            "busy": Busy(self._clock).routes(),
            "mirror": Mirror(MODULES, _about).routes(),
        }
        for name, those in routes.items():
            await self._serve_host(those, sockets[name])
        silent = await asyncio.get_running_loop().create_server(asyncio.Protocol, sock=sockets["silent"])
        self._stack.callback(silent.close)
        self._stack.callback(sockets["dead"].close)

    async def _serve_host(self, routes: Sequence[web.RouteDef], listening: socket.socket) -> None:
        app = web.Application()
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.SockSite(runner, listening).start()


def _bind_anywhere(now: float) -> tuple[Place, dict[str, socket.socket]]:
    """Return a place with ports in a row, and the sockets of the other hosts. Raises OSError."""
    error = OSError("no port is free")
    for first in random.sample(_PORTS, _ATTEMPTS):
        docs = tuple(range(first, first + DOCS))
        place = Place(docs, {name: first + DOCS + number for number, name in enumerate(OTHERS)}, now)
        try:
            with ExitStack() as probes:
                for port in docs:
                    probes.enter_context(socket.create_server((HOST, port)))
                return place, _bind(place.others)
        except OSError as reason:
            error = reason
    raise error


def _bind(ports: Mapping[str, int]) -> dict[str, socket.socket]:
    """Return a socket for each port. Those of hosts that listen do. Raises OSError, and then none stays bound."""
    sockets: dict[str, socket.socket] = {}
    try:
        for name, port in ports.items():
            if name in _LISTENING:
                sockets[name] = socket.create_server((HOST, port))
            else:
                sockets[name] = socket.socket()
                sockets[name].bind((HOST, port))
    except OSError:
        for each in sockets.values():
            each.close()
        raise
    return sockets


def _about(topic: str) -> str:
    return f"<p>What is said of {html.escape(topic)} here is said elsewhere too."
