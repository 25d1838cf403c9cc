"""The demo's web, asked as a crawler would ask it."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from crawler.tools.demo.modules import MOVED, REMOVED
from crawler.tools.demo.site import DemoSite
from tests.asked import free_port
from tests.tools.demo.walk import walk

FEW = (
    "abc",
    "bisect",
    "heapq",
    "json",
    "json.decoder",
    "json.encoder",
    "keyword",
    "queue",
    "os",
    "this_is_none",
)


async def test_every_page_has_one_home_and_can_be_reached_from_the_first_seed(tmp_path: Path) -> None:
    site = DemoSite(tmp_path, modules=FEW)
    ports = await site.start(count=3)
    try:
        answers = await walk(site)
    finally:
        await site.stop()
    pages = {url for url, (status, _, _) in answers.items() if status == 200 and url.endswith(".html")}
    assert pages == {site.url(name) for name in FEW if name != "this_is_none"}
    assert len({urlsplit(url).port for url in pages}) == len(ports) == 3
    assert answers[site.url("this_is_none")][0] == 404
    assert "<title>Python: module heapq</title>" in answers[site.url("heapq")][1]
    for _, body, _ in answers.values():
        assert "file:" not in body


async def test_renamed_pages_redirect_and_removed_ones_are_gone(tmp_path: Path) -> None:
    site = DemoSite(tmp_path, modules=FEW)
    await site.start(count=1)
    try:
        answers = await walk(site)
        robots_txt = site.seeds[0] + "robots.txt"
        async with aiohttp.ClientSession() as session, session.get(robots_txt) as response:
            robots = await response.text()
    finally:
        await site.stop()
    root = site.seeds[0]
    for name, now in MOVED.items():
        assert answers[f"{root}{name}.html"][0::2] == (301, site.url(now))
    for name in REMOVED:
        assert answers[f"{root}{name}.html"][0] == 410
    assert "Disallow: /search\n" in robots
    assert any(urlsplit(url).path == "/search" and status == 200 for url, (status, _, _) in answers.items())
    # A link of pydoc's own that leads nowhere.
    assert answers[f"{root}_queue.html"][0] == 404


async def test_given_ports_are_bound_exactly(tmp_path: Path) -> None:
    first = DemoSite(tmp_path, modules=FEW)
    ports = await first.start([free_port(), free_port()])
    home = first.url("json")
    await first.stop()
    again = DemoSite(tmp_path, modules=FEW)
    assert await again.start(ports) == ports
    assert again.url("json") == home
    await again.stop()


async def test_a_port_in_use_is_an_error_that_leaves_nothing_bound(tmp_path: Path) -> None:
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is what is asserted)
            await DemoSite(tmp_path, modules=FEW).start([free, taken.getsockname()[1]])
        assert caught.value.errno == errno.EADDRINUSE
        socket.create_server(("127.0.0.1", free)).close()
    assert os.listdir(tmp_path) == []
