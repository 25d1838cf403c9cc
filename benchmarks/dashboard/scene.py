"""Hosts on loopback that behave as hosts of the web do: well, slowly, badly, or not at all.

    python benchmarks/dashboard/scene.py

prints their seeds and serves them until Ctrl-C. ``pictures.py`` crawls them beside a web of real pages, to look at the
dashboard while something goes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

PORT = 8081
FAST, SLOW, THROTTLING, FAILING, ROTTEN, SHUT, DEAD = (f"127.0.2.{number}" for number in range(1, 8))
SECTIONS = ("guide", "reference", "blog", "products", "a-section-with-a-name-that-is-longer-than-a-column-of-the-table")


@dataclass(frozen=True)
class Nature:
    """How a host behaves: the ``pages`` it has, the ``seconds`` it takes for each, and its ``status`` for page N."""

    pages: int
    seconds: float = 0.0
    status: Callable[[int], int] = lambda number: 200
    robots: str = ""
    links: Callable[[int], tuple[str, ...]] = lambda number: ()


NATURES = {
    FAST: Nature(pages=400),
    SLOW: Nature(pages=60, seconds=3.0),
    THROTTLING: Nature(pages=120, status=lambda number: 429 if number % 4 == 3 else 200),
    FAILING: Nature(pages=150, status=lambda number: 500 if number % 3 == 1 else 200),
    # Each page links to one that does not exist.
    ROTTEN: Nature(pages=150, links=lambda number: (f"/gone/{number}.html",)),
    SHUT: Nature(pages=40, robots="User-agent: *\nDisallow: /blog/\nDisallow: /products/\n"),
}


def path_of(number: int) -> str:
    return "/" if number == 0 else f"/{SECTIONS[number % len(SECTIONS)]}/{number // 25}/page-{number}.html"


def text_of(number: int, nature: Nature) -> str:
    """A page of a tree, as long as its number says."""
    others = (path_of(other) for other in range(6 * number + 1, 6 * number + 7) if other < nature.pages)
    links = "".join(f'<li><a href="{path}">{path}</a>' for path in (*others, *nature.links(number)))
    words = f"<p>This is page {number}, and no other has its words.</p>" * (1 + number * 37 % 90)
    return f"<!doctype html><title>Page {number}</title><h1>Page {number}</h1>{words}<ul>{links}</ul>"


def answers(nature: Nature) -> web.Application:
    numbers = {path_of(number): number for number in range(nature.pages)}

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/robots.txt":
            return web.Response(text=nature.robots)
        number = numbers.get(request.path)
        if number is None:
            return web.Response(status=404, text="<h1>Not found</h1>", content_type="text/html")
        await asyncio.sleep(nature.seconds)
        status = nature.status(number)
        headers = {"Retry-After": "5"} if status == 429 else None
        return web.Response(status=status, text=text_of(number, nature), content_type="text/html", headers=headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    return app


@asynccontextmanager
async def scene() -> AsyncIterator[list[str]]:
    """Serve the hosts, and yield their seeds. Nothing listens on the host that is dead."""
    runners = []
    for address, nature in NATURES.items():
        runner = web.AppRunner(answers(nature), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, address, PORT).start()
        runners.append(runner)
    try:
        yield [*(f"http://{address}:{PORT}/" for address in (*NATURES, DEAD)), f"http://{DEAD}:{PORT}/a/second/page"]
    finally:
        for runner in runners:
            await runner.cleanup()


async def main() -> None:
    async with scene() as urls:
        print("\n".join(urls), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
