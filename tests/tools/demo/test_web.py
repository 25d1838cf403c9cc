"""The hosts beside the documentation, asked as a crawler would ask them."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from crawler.tools.demo.html_answers import html_page
from crawler.tools.demo.news import CORRECTED, FRONT, KEPT, PERIOD, News
from crawler.tools.demo.trouble import BUSY_ALLOWED, BUSY_WINDOW, Busy, Mirror, Slow
from crawler.tools.demo.web import OTHERS, DemoWeb, Place

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
        url = path if path.startswith("http") else self.origin + path
        async with self.session.get(url, headers=headers) as response:
            return response.status, await response.text(), response


async def served(routes: list[web.RouteDef]) -> AsyncIterator[Visitor]:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        yield Visitor(session, f"http://127.0.0.1:{port}")
    await runner.cleanup()


async def test_news_come_are_corrected_and_go() -> None:
    now = Now()
    topics = tuple(f"topic{number}" for number in range(100))
    news = News(topics, "http://docs.test/{}".format, now, BEGAN)
    async for visitor in served(news.routes()):
        _, front, answer = await visitor.get("/")
        stories = [href for href in HREF.findall(front) if re.fullmatch(r"/topic\d+/\d+", href)]
        assert len(stories) == FRONT
        tag = answer.headers["ETag"]
        assert (await visitor.get("/", **{"If-None-Match": tag}))[0] == 304
        now.time += PERIOD
        status, later, _ = await visitor.get("/", **{"If-None-Match": tag})
        fresh = [href for href in HREF.findall(later) if href not in HREF.findall(front)]
        assert (status, fresh) == (200, [news.path(news.newest())])
        texts = {(await visitor.get(fresh[0]))[1]}
        for age in CORRECTED:
            now.time = BEGAN + PERIOD + age + PERIOD
            texts.add((await visitor.get(fresh[0]))[1])
        assert len(texts) == 1 + len(CORRECTED), "each correction changes the page"
        number = news.newest()
        now.time = BEGAN + (KEPT + number) * PERIOD
        assert (await visitor.get(fresh[0]))[0] == 410
        assert (await visitor.get(news.path(news.newest() + 1)))[0] == 404
        assert "pubDate" in (await visitor.get("/feed.xml"))[1]


async def test_what_exists_of_the_news_is_bounded_after_any_time() -> None:
    now = Now()
    news = News(("a", "b", "c"), "http://docs.test/{}".format, now, BEGAN)
    now.time += 30 * 86_400
    async for visitor in served(news.routes()):
        known, left = {"/"}, ["/"]
        while left:
            status, text, _ = await visitor.get(left.pop())
            found = {href for href in HREF.findall(text) if href.startswith("/")} if status == 200 else set()
            left += found - known
            known |= found
        assert len(known) <= KEPT + 10


async def test_a_busy_host_says_when_it_may_be_asked_again_and_keeps_its_word() -> None:
    now = Now()
    async for visitor in served(Busy(now).routes()):
        for number in range(1, BUSY_ALLOWED + 1):
            assert (await visitor.get(f"/item/{number}"))[0] == 200
        now.time += 5
        status, _, answer = await visitor.get("/item/9")
        assert (status, answer.headers["Retry-After"]) == (429, str(int(BUSY_WINDOW) - 5))
        assert (await visitor.get("/robots.txt"))[0] == 200, "its robots.txt is always answered"
        now.time += float(answer.headers["Retry-After"])
        assert (await visitor.get("/item/9"))[0] == 200


async def test_a_slow_host_answers_in_the_end_and_links_to_what_is_gone() -> None:
    async for visitor in served(Slow(["http://dead.test/a"], factor=0.01).routes()):
        _, front, _ = await visitor.get("/")
        boxes = [href for href in HREF.findall(front) if href.startswith("/archive/")]
        assert "http://dead.test/a" in HREF.findall(front)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert [(await visitor.get(box))[0] for box in boxes] == [200] * len(boxes)
        assert loop.time() - began > 0.01 * len(boxes)


async def test_a_mirror_has_each_page_many_times_but_not_without_end() -> None:
    async for visitor in served(Mirror([f"topic{number}" for number in range(50)], "<p>{}".format).routes()):
        bodies: dict[str, set[str]] = {}
        known, left = {"/"}, ["/"]
        while left:
            path = left.pop()
            status, text, _ = await visitor.get(path)
            assert status == 200
            bodies.setdefault(text, set()).add(path)
            found = set(HREF.findall(text))
            left += found - known
            known |= found
        assert len(known) < 400
        copies = [paths for paths in bodies.values() if len(paths) > 1]
        assert sum(map(len, copies)) > 100


async def test_the_web_is_where_it_was(tmp_path: Path) -> None:
    web_ = DemoWeb(tmp_path, Now())
    await web_.start()
    place, seeds = web_.place, web_.seeds
    try:
        assert place.others.keys() == OTHERS.keys()
        names = [urlsplit(seed).hostname for seed in seeds]
        assert names == [
            *(f"docs-{number}.localhost" for number in range(1, 5)),
            *(f"{name}.localhost" for name in OTHERS),
        ]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", place.others["dead"]), 5)
        with socket.create_connection(("127.0.0.1", place.others["silent"]), 5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: silent.localhost\r\n\r\n")
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
        with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is what is asserted)
            await DemoWeb(tmp_path, Now(), place).start()
        assert caught.value.errno == errno.EADDRINUSE
    finally:
        await web_.stop()
    again = DemoWeb(tmp_path, Now(), place)
    await again.start()
    assert again.seeds == seeds
    await again.stop()


async def test_a_web_of_an_earlier_version_is_served_as_it_was(tmp_path: Path) -> None:
    probe = DemoWeb(tmp_path, Now())
    await probe.start()
    ports = probe.place.docs
    await probe.stop()
    old = DemoWeb(tmp_path, Now(), Place(ports))
    await old.start()
    assert old.seeds == [f"http://127.0.0.1:{port}/" for port in ports]
    assert old.docs.url("json").startswith("http://127.0.0.1:")
    await old.stop()
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_title_is_text() -> None:
    assert html_page("<script>", "").text.count("&lt;script&gt;") == 2  # type: ignore[union-attr]
