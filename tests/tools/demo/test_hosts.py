"""The hosts of the demo, asked as a crawler would ask them."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import aiohttp
import pytest
from aiohttp import web

from crawler.tools.demo.hosts import CORRECTED, FRONT, KEPT, PERIOD, News
from crawler.tools.demo.web import HOSTS, DemoWeb

BEGAN = 1_700_000_000.0
HREF = re.compile(r'href="([^"]+)"')


class Now:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = BEGAN

    def __call__(self) -> float:
        return self.time


class Visitor:
    """Asks one host."""

    def __init__(self, session: aiohttp.ClientSession, origin: str) -> None:
        self.session, self.origin = session, origin

    async def get(self, path: str, **headers: str) -> tuple[int, str, aiohttp.ClientResponse]:
        url = urljoin(self.origin, path)
        async with self.session.get(url, headers=headers, allow_redirects=False) as response:
            return response.status, await response.text(), response


@asynccontextmanager
async def served(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[Visitor]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        yield Visitor(session, f"http://127.0.0.1:{runner.addresses[0][1]}")
    await runner.cleanup()


async def test_news_come_are_corrected_and_go() -> None:
    now = Now()
    async with served(News(now, BEGAN).handle) as visitor:
        _, front, answer = await visitor.get("/")
        assert len(HREF.findall(front)) == FRONT
        tag = answer.headers["ETag"]
        assert (await visitor.get("/", **{"If-None-Match": tag}))[0] == 304
        now.time += PERIOD
        status, later, _ = await visitor.get("/", **{"If-None-Match": tag})
        (fresh,) = {*HREF.findall(later)} - {*HREF.findall(front)}
        assert status == 200
        texts = {(await visitor.get(fresh))[1]}
        for age in CORRECTED:
            now.time = BEGAN + PERIOD + age
            texts.add((await visitor.get(fresh))[1])
        assert len(texts) == 1 + len(CORRECTED), "each correction changes the page"
        now.time += KEPT * PERIOD
        assert (await visitor.get(fresh))[0] == 410
        assert (await visitor.get("/story/999"))[0] == 404


async def test_the_web_is_where_it_was() -> None:
    first = DemoWeb(Now())
    async with first.served() as place:
        assert [urlsplit(seed).hostname for seed in first.seeds] == [f"{name}.localhost" for name in HOSTS]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", place.ports["dead"]), 5)
        with socket.create_connection(("127.0.0.1", place.ports["silent"]), 5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: silent.localhost\r\n\r\n")
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
        with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is what is asserted)
            await DemoWeb(Now(), place).served().__aenter__()
        assert caught.value.errno == errno.EADDRINUSE
    again = DemoWeb(Now(), place)
    async with again.served():
        assert again.seeds == first.seeds
