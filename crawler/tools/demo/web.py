"""All hosts of the demo, each on its own loopback port."""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from crawler.tools.demo.hosts import Busy, Mirror, News, Pages, Slow

PAGES = Path(__file__).with_name("pages")
FOLDERS = ("guide", "handbook", "glossary")
HOSTS = (*FOLDERS, "news", "slow", "busy", "mirror", "dead", "silent")
_LOST = ("", "minutes.html", "members.html", "rules.html", "2019/plan.html", "2020/plan.html")  # paths of dead links
# Below the range of ephemeral ports, so that they are still free when the demo resumes.
_PORTS = range(20_000, 32_000 - len(HOSTS))
_ATTEMPTS = 50

Answer = Callable[[web.Request], Awaitable[web.Response]]


class Place(Struct, frozen=True):
    """The ports of the hosts, by name, and the time at which the demo started, in seconds since 1970."""

    ports: dict[str, int]
    began: float

    def origin(self, name: str) -> str:
        # Names below localhost resolve to this machine, for crawlers and browsers (RFC 6761).
        return f"http://{name}.localhost:{self.ports[name]}"


class DemoWeb:
    """The web. ``clock`` returns seconds since 1970; ``place`` is the place where an earlier run served the web, if
    any."""

    def __init__(self, clock: Callable[[], float], place: Place | None = None) -> None:
        self._clock = clock
        self.place = place

    @property
    def seeds(self) -> list[str]:
        """The URL of every host's start page; available only while the hosts are served."""
        assert self.place is not None
        return [f"{self.place.origin(name)}/" for name in HOSTS]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Place]:
        """Serve the web, at the place of the earlier run if there was one. If a port is in use, release all ports and
        raise OSError."""
        async with AsyncExitStack() as stack:
            place = self.place or _free_place(self._clock())
            sockets = _bind(stack.enter_context(ExitStack()), place.ports)
            self.place = place
            for name, answer in self._answers(place).items():
                app = web.Application()
                if name not in FOLDERS:
                    app.router.add_get("/robots.txt", _robots)
                app.router.add_get("/{path:.*}", answer)
                runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.SockSite(runner, sockets[name]).start()
            yield place

    def _answers(self, place: Place) -> dict[str, Answer]:
        lost = [f"{place.origin(name)}/{path}" for name in ("dead", "silent") for path in _LOST]
        return {
            **{name: Pages(PAGES / name, place.origin).handle for name in FOLDERS},
            "news": News(self._clock, place.began).handle,
            "slow": Slow(lost).handle,
            "busy": Busy(self._clock).handle,
            "mirror": Mirror(PAGES / "glossary", place.origin).handle,
        }


async def _robots(request: web.Request) -> web.Response:
    return web.Response(text="User-agent: *\nAllow: /\n")


def _free_place(now: float) -> Place:
    """Return a place with free consecutive ports. Raises OSError."""
    error = OSError("not enough consecutive ports are free")
    for first in random.sample(_PORTS, _ATTEMPTS):
        place = Place({name: first + number for number, name in enumerate(HOSTS)}, now)
        try:
            with ExitStack() as probe:
                _bind(probe, place.ports)
            return place
        except OSError as reason:
            error = reason
    raise error


def _bind(stack: ExitStack, ports: Mapping[str, int]) -> dict[str, socket.socket]:
    """Return a socket for each port, which ``stack`` closes. All listen except the dead host's; connections to the
    silent host are not accepted. Raises OSError."""
    sockets = {name: stack.enter_context(socket.socket()) for name in ports}
    for name, port in ports.items():
        sockets[name].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sockets[name].bind(("127.0.0.1", port))
        if name != "dead":
            sockets[name].listen()
    return sockets
