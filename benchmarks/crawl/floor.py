"""The floor: the cost of fetching pages and following their links in Python when nothing else is done.

aiohttp, Lexbor and ada-url around a set and a list: no politeness, no robots.txt, nothing kept on disk but the list
of the HTML pages and the seconds that each took, written at the end. A server that asks for patience gets it. What
``/private/`` holds, which the robots.txt of a synthetic web disallows, is left out.

    python -m benchmarks.crawl.floor SEEDS PAGES
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import deque
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from ada_url import URL, join_url
from selectolax.lexbor import LexborHTMLParser
from yarl import URL as RequestURL

CONCURRENCY = 64
PER_HOST = 16
PRIVATE = "/private/"
PATIENCE = frozenset({429, 503})

_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)


class Floor:
    """One crawl of the hosts of its seeds."""

    def __init__(self, seeds: list[str]) -> None:
        self.hosts = {urlsplit(seed).netloc for seed in seeds}
        self.seen = set(seeds)
        self.pending = deque(seeds)
        self.pages: dict[str, float] = {}  # with the seconds of the exchange

    async def crawl(self) -> None:
        connector = aiohttp.TCPConnector(limit=CONCURRENCY, limit_per_host=PER_HOST)
        async with aiohttp.ClientSession(connector=connector) as session:
            running: set[asyncio.Task[None]] = set()
            while self.pending or running:
                while self.pending and len(running) < CONCURRENCY:
                    running.add(asyncio.create_task(self.visit(session, self.pending.popleft())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()

    async def visit(self, session: aiohttp.ClientSession, url: str) -> None:
        began = time.monotonic()
        async with session.get(RequestURL(url, encoded=True), allow_redirects=False) as response:
            if response.status in PATIENCE:
                await asyncio.sleep(float(response.headers.get("Retry-After", "1")))
                self.pending.append(url)
                return
            if 300 <= response.status < 400:
                self.discover(url, [response.headers.get("Location", "")])
            if response.status != 200 or response.content_type != "text/html":
                return
            body = await response.read()
        self.pages[url] = time.monotonic() - began
        tree = LexborHTMLParser(decoded(body))
        base = url
        for node in tree.css("base[href]")[:1]:
            base = join_url(url, node.attributes.get("href") or "")
        self.discover(base, [node.attributes.get("href") or "" for node in tree.css("a[href],area[href]")])

    def discover(self, base: str, hrefs: list[str]) -> None:
        for href in dict.fromkeys(href.partition("#")[0] for href in hrefs):
            try:
                url = join_url(base, href)
            except ValueError:
                continue
            parsed = URL(url)
            if url not in self.seen and parsed.host in self.hosts and not parsed.pathname.startswith(PRIVATE):
                self.seen.add(url)
                self.pending.append(url)


def decoded(body: bytes) -> str:
    named = _CHARSET.search(body[:4096])
    name = named.group(1).decode() if named else "utf-8"
    try:
        return body.decode(name, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def main() -> None:
    seeds, pages = map(Path, sys.argv[1:])
    floor = Floor(seeds.read_text().split())
    asyncio.run(floor.crawl())
    pages.write_text("".join(f"{url} {seconds:.6f}\n" for url, seconds in floor.pages.items()))


if __name__ == "__main__":
    main()
