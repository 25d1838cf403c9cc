"""The dashboard asked over HTTP, as browsers, Prometheus and intruders would."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from crawler.base.settings.parts import DashboardSettings
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.live_server import Dashboard
from tests.job.metrics.samples import statistics

HALF_A_MINUTE = 30.0  # of the minute for which aiohttp by itself waits for who listens
TOKEN = "a-token-for-these-tests"
PATHS = ["/", "/page/main.js", "/metrics", "/api/stats", "/api/events"]


@asynccontextmanager
async def dashboard(
    stats: Callable[[], dict[str, Any]] = statistics,
    interval: float = 0.01,
) -> AsyncIterator[tuple[Dashboard, aiohttp.ClientSession]]:
    """A dashboard whose clock goes one second a tick, and a client that knows its address."""
    seconds = itertools.count(1_000)
    settings = DashboardSettings(listen="127.0.0.1:0", interval=interval)
    board = Dashboard(settings, Feed(stats, lambda: float(next(seconds))), (), Access(TOKEN))
    url = await board.start()
    try:
        async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            yield board, client
    finally:
        await board.stop()


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in response.content:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


async def test_stats_and_metrics_are_what_the_crawl_says() -> None:
    async with dashboard() as (_, client):
        async with client.get("/api/stats") as response:
            assert response.content_type == "application/json"
            assert await response.json() == statistics()
        async with client.get("/metrics") as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            families = list(text_string_to_metric_families(await response.text()))
        assert [f.samples[0].value for f in families if f.name == "crawler_urls_pending"] == [2_000]


async def test_the_page_and_all_it_loads_are_served_and_nothing_else() -> None:
    async with dashboard() as (_, client):
        async with client.get("/") as response:
            assert response.content_type == "text/html"
            page = await response.text()
        assert not re.search(r"\s(?:style|on\w+)=|<style|https?://", page)
        parts = re.findall(r'(?:src|href)="(page/[^"]+)"', page)
        assert {part.rpartition(".")[2] for part in parts} == {"svg", "css", "js"}
        size, loaded = len(page), set[str]()
        while parts:
            part = parts.pop()
            async with client.get(f"/{part}") as response:
                assert response.status == 200
                assert response.content_type in ("text/css", "text/javascript", "image/svg+xml")
                etag, body = response.headers["ETag"], await response.text()
            async with client.get(f"/{part}", headers={"If-None-Match": etag}) as response:
                assert response.status == 304
            size, loaded = size + len(body.encode()), loaded | {part}
            imported = {f"page/{name}" for name in re.findall(r'^import .* from "\./(.+)";$', body, re.MULTILINE)}
            parts += imported - loaded - set(parts)
        assert size < 250_000
        async with client.get("/page/nothing") as response:
            assert response.status == 404


@pytest.mark.parametrize("path", [*PATHS, "/healthz", "/nothing"])
async def test_every_answer_forbids_what_the_page_does_not_need(path: str) -> None:
    async with dashboard() as (_, client), client.get(path) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in response.headers
        assert response.headers["Server"] == "crawler"


async def test_a_listener_gets_the_past_then_every_tick_then_the_end() -> None:
    pages = itertools.count(0, 5)
    state = "running"

    def stats() -> dict[str, Any]:
        return statistics(state=state, pages_fetched=next(pages))

    async with dashboard(stats) as (board, client), client.get("/api/events") as response:
        assert response.content_type == "text/event-stream"
        heard = events(response)
        name, past = await anext(heard)
        assert name == "history"
        assert past["recent"]["t"][0] == past["all"]["t"][0] == 1_000.0
        ticks = [await anext(heard) for _ in range(4)]
        assert {name for name, _ in ticks} == {"tick"}
        # The first comes at once; from then on the clock goes a second a tick.
        assert [data["point"]["pages_per_second"] for _, data in ticks[2:]] == [5.0, 5.0]
        assert ticks[-1][1]["stats"].keys() == statistics().keys()
        assert "none lost" in ticks[-1][1]["trust"]
        state = "ended"
        stopping = asyncio.create_task(board.stop())
        async with asyncio.timeout(HALF_A_MINUTE):
            rest = [event async for event in heard]
            await stopping
        assert rest[-1][0] == "end"
        assert rest[-1][1]["stats"]["state"] == "ended"


async def test_a_listener_that_does_not_read_costs_one_message_and_does_not_hold_others() -> None:
    padding = "x" * 100_000
    ticks = itertools.count()
    async with dashboard(lambda: statistics(state=f"{next(ticks)} {padding}"), interval=0.001) as (board, client):
        deaf = socket.create_connection(board.server.address)
        deaf.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        async with client.get("/api/events", read_bufsize=2**22) as response:
            heard = events(response)
            for _ in range(200):
                await anext(heard)
            # 20 MB went to the one who listens; for the other waits what was begun, above the high-water mark.
            assert board.server.runner.server is not None
            open_ones = [each.transport for each in board.server.runner.server.connections]
            waiting = [each.get_write_buffer_size() for each in open_ones if each is not None]
            assert len(waiting) == 2
            assert 0 < max(waiting) < 400_000
        # A listener that does not read is not waited for: it stays open until the dashboard has gone.
        async with asyncio.timeout(HALF_A_MINUTE):
            await board.stop()
        deaf.close()
