"""The web that the stored jobs were crawling: the same pages at the same address for ever, as jobs store URLs."""

from __future__ import annotations

from aiohttp import web

from tests.site import Handler, Site, linked

# A loopback address that nothing else listens at, so that the port can be fixed.
ADDRESS = ("127.91.42.7", 8765)
ROOT = f"http://{ADDRESS[0]}:{ADDRESS[1]}"
PAGES = 60
_LISTED = ("/listed/1", "/listed/2")


def site() -> Site:
    """Pages in a binary tree, a redirect, a page that is gone, one that robots.txt refuses, a sitemap."""
    pages: dict[str, str | Handler] = {_path(number): _page(number) for number in range(PAGES)}
    pages |= {path: f"<p>only the sitemap names {path}" for path in _LISTED}
    pages |= {"/moved": _moved, "/sitemap.xml": _sitemap}
    robots = f"User-agent: *\nDisallow: /private\nSitemap: {ROOT}/sitemap.xml\n"
    return Site(pages, robots=robots, address=ADDRESS)


def urls() -> set[str]:
    """Every URL that a crawl of the site ends with a record of, whatever became of it."""
    paths = {_path(number) for number in range(PAGES)}
    return {ROOT + path for path in paths | {"/moved", "/gone", "/private/x", "/sitemap.xml", *_LISTED}}


def _path(number: int) -> str:
    return f"/page/{number}" if number else "/"


def _page(number: int) -> str:
    children = [_path(child) for child in (2 * number + 1, 2 * number + 2) if child < PAGES]
    return linked([*children, *{0: ["/moved", "/gone"], 3: ["/private/x"], 7: ["/"]}.get(number, [])]) + str(number)


async def _moved(_: web.Request) -> web.StreamResponse:
    raise web.HTTPMovedPermanently("/page/5")


async def _sitemap(_: web.Request) -> web.StreamResponse:
    said = "<lastmod>2024-01-01</lastmod><changefreq>weekly</changefreq>"
    locations = "".join(f"<url><loc>{ROOT}{path}</loc>{said}</url>" for path in _LISTED)
    text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>'
    return web.Response(text=text, content_type="application/xml")
