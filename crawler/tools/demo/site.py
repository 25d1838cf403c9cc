"""The demo's web: the rendered pages on several loopback ports, each a host of its own.

Each module has its home on one of the ports, chosen by a stable hash of its name. Links lead there, so that a crawl
crosses hosts. The web also has what real ones have: a start page on every host, renamed pages that redirect, pages that
are gone (410) or never existed (404), and a search that robots.txt excludes.
"""

from __future__ import annotations

import html
import re
import socket
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from crawler.tools.demo.html_answers import html_page, items, tagged
from crawler.tools.demo.modules import MODULES, MOVED, REMOVED
from crawler.tools.demo.render import Pages, RenderError

HOST = "127.0.0.1"
DOMAIN = "localhost"  # names below it lead to this machine, for crawlers as for browsers (RFC 6761)
ROBOTS = "User-agent: *\nDisallow: /search\n"

_MODULE_LINK = re.compile(r'<a href="([A-Za-z_][\w.]*)\.html(#[^"]*)?"([^>]*)>(.*?)</a>', re.DOTALL)


class DemoSite:
    """Serves the pages of ``modules``, kept below the folder ``cache``.

    ``on_page(there, of)`` is called as pages appear on disk. A page that is requested before it is rendered is awaited.
    ``named``: each port has a name of its own, ``docs-1.localhost`` and so on; without, all have the same address.
    ``elsewhere`` are links for the start page: address -> words.
    """

    def __init__(
        self,
        cache: Path,
        on_page: Callable[[int, int], None] | None = None,
        modules: tuple[str, ...] = MODULES,
        *,
        named: bool = False,
    ) -> None:
        self.elsewhere: dict[str, str] = {}
        self._named = named
        self._modules = modules
        self._pages = Pages(cache, on_page, modules)
        self._ports: list[int] = []
        self._runner: web.AppRunner | None = None

    @property
    def seeds(self) -> list[str]:
        """The start page of every host."""
        return [f"{self._origin(number)}/" for number in range(len(self._ports))]

    async def start(self, ports: Sequence[int] | None = None, count: int = 4) -> list[int]:
        """Bind exactly ``ports``, or ``count`` free ones. Returns the ports, in the order that homes depend on.

        Raises OSError if one of the ports is in use or the pages cannot be stored; then nothing stays bound.
        """
        wanted = [0] * count if ports is None else list(ports)
        sockets: list[socket.socket] = []
        try:
            for port in wanted:
                sockets.append(socket.create_server((HOST, port)))
            await self._pages.start()
        except OSError:
            for listening in sockets:
                listening.close()
            raise
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self._start_page),
                web.get("/robots.txt", self._robots),
                web.get("/search", self._search),
                web.get("/{name}.html", self._module_page),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        for listening in sockets:
            await web.SockSite(self._runner, listening).start()
        self._ports = [listening.getsockname()[1] for listening in sockets]
        return list(self._ports)

    async def stop(self) -> None:
        await self._pages.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def rendered(self) -> None:
        """Return when every page is on disk. Raises RenderError if rendering failed."""
        await self._pages.complete()

    def url(self, name: str) -> str:
        """Return the URL of the home of module ``name``."""
        return f"{self._origin(zlib.crc32(name.encode()) % len(self._ports))}/{name}.html"

    def _origin(self, number: int) -> str:
        host = f"docs-{number + 1}.{DOMAIN}" if self._named else HOST
        return f"http://{host}:{self._ports[number]}"

    def _lead_home(self, page: str) -> str:
        """Return the page with its links to modules pointing to their homes.

        Links to private modules stay as they are: they are the site's own dead links. A link to any other module
        without a page loses the link and keeps the words.
        """

        def link(match: re.Match[str]) -> str:
            name, fragment, attributes, words = match[1], match[2] or "", match[3], match[4]
            if name in self._pages:
                return f'<a href="{self.url(name)}{fragment}"{attributes}>{words}</a>'
            return match[0] if name.startswith("_") else words

        return _MODULE_LINK.sub(link, page)

    async def _module_page(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name in MOVED:
            return web.Response(status=301, headers={"Location": self.url(MOVED[name])})
        if name in REMOVED:
            return html_page(f"{name} was removed", f"<p>in Python {REMOVED[name]}.", status=410)
        if name not in self._pages:
            return _missing(name)
        try:
            page = await self._pages.get(name)
        except RenderError as error:
            return html_page("No page could be made", f"<p>{html.escape(str(error))}", status=500)
        if page is None:
            return _missing(name)
        text = self._lead_home(page.decode())
        return tagged(request, web.Response(text=text, content_type="text/html", charset="utf-8"))

    async def _start_page(self, request: web.Request) -> web.Response:
        letters = sorted({name[0].lower() for name in self._modules})
        hosts = "".join(f'<li><a href="{seed}">{seed}</a>' for seed in self.seeds)
        modules = "".join(f'<li><a href="{self.url(name)}">{name}</a>' for name in self._modules)
        moved = "".join(f'<li><a href="/{name}.html">{name}</a>' for name in MOVED)
        removed = "".join(f'<li><a href="/{name}.html">{name}</a>' for name in REMOVED)
        elsewhere = f"<h2>Elsewhere</h2>{items(self.elsewhere)}" if self.elsewhere else ""
        search = " ".join(f'<a href="/search?q={letter}">{letter}</a>' for letter in letters)
        page = html_page(
            "The standard library",
            f"<p>Search: {search}<h2>Hosts</h2><ul>{hosts}</ul><h2>Modules</h2><ul>{modules}</ul>"
            f"<h2>Renamed</h2><ul>{moved}</ul><h2>Removed</h2><ul>{removed}</ul>{elsewhere}",
        )
        return tagged(request, page)

    async def _search(self, request: web.Request) -> web.Response:
        words = request.query.get("q", "")
        found = "".join(
            f'<li><a href="{self.url(name)}">{name}</a>' for name in self._modules if words.lower() in name.lower()
        )
        return html_page(f"Modules with {words} in their name", f"<ul>{found}</ul>")

    async def _robots(self, request: web.Request) -> web.Response:
        return web.Response(text=ROBOTS)


def _missing(name: str) -> web.Response:
    return html_page("No such page", f"<p>There is no module {html.escape(name)} here.", status=404)
