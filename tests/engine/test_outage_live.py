"""Our own line is down for a while, with real servers and connections. Each host is an address of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

import pytest

from crawler.base.clock import SteadyClock
from crawler.base.settings import settings_from
from crawler.engine.lifecycle import Stop
from crawler.job.job import Job
from crawler.job.live_status import read_live
from crawler.web.fetch import Fetcher
from tests.driving import Driven
from tests.jobs import rows, verify
from tests.needs import need
from tests.program import PATIENCE, ROOT, crawler, running, wait_until
from tests.site import Site, tree

HOSTS = [f"127.0.0.{number}" for number in range(2, 12)]
PAGES = 20
SETTINGS = settings_from(
    {
        "crawl": {"concurrency": 16},
        "politeness": {"delay": 0.05},
        "fetch": {"allow_private": True},
        "durability": {"sync_interval": 1.0},
    },
    "the test",
)


class Servers:
    """A server at each address, all on one port, and what they were asked. They can be stopped, or made to reset."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.resets = False
        self._port = 0
        self._open: list[asyncio.Server] = []

    async def start(self) -> None:
        for host in HOSTS:
            server = await asyncio.start_server(self._serve, host, self._port, reuse_address=True)
            self._port = server.sockets[0].getsockname()[1]
            self._open.append(server)

    async def stop(self) -> None:
        while self._open:
            self._open.pop().close()

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self._port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.resets:
            writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            host = writer.get_extra_info("sockname")[0]
            self.asked.append(self.url(host, path))
            links = "".join(f'<a href="/{number}">x</a>' for number in range(PAGES)) if path == "/" else ""
            status = b"404 Not Found" if path == "/robots.txt" else b"200 OK"
            body = links.encode()
            head = b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
            writer.write(head % (status, len(body)) + body)
            await writer.drain()
        writer.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 (what is waited for is on the other side of a socket)
            await asyncio.sleep(0.02)


async def test_ten_servers_that_refuse_and_that_reset_are_not_blamed(tmp_path: Path) -> None:
    servers, clock = Servers(), SteadyClock()
    await servers.start()

    async def seeds() -> AsyncIterator[list[str]]:
        yield [servers.url(host) for host in HOSTS]

    job = Job(tmp_path / "job", SETTINGS, clock())
    try:
        async with Fetcher(SETTINGS.fetch, concurrency=16, per_host=1) as fetcher:
            driven = Driven(job, fetcher, SETTINGS, clock, seeds())
            running = asyncio.ensure_future(driven.to_the_end())
            await until(lambda: job.counters.fetched > 20)
            await servers.stop()
            await until(lambda: driven.run.stats()["outage"]["probes"] >= 2)
            assert driven.run.stats()["state"] == "paused"
            assert "refused: connection refused" in driven.run.stats()["paused"]
            fetched = job.counters.fetched
            await servers.start()
            await until(lambda: job.counters.fetched > fetched + 10)
            servers.resets = True
            await until(lambda: driven.run.stats()["outage"]["count"] == 2)
            servers.resets = False
            assert await running is Stop.FINISHED
    finally:
        await servers.stop()
        job.close()
    pages = [servers.url(host, path) for host in HOSTS for path in ("/", *(f"/{number}" for number in range(PAGES)))]
    assert Counter(row["url"] for row in rows(tmp_path / "job")) == Counter(pages)
    assert {row["outcome"] for row in rows(tmp_path / "job")} == {"fetched"}
    asked = Counter(servers.asked)
    assert {asked[url] for url in pages} == {1}, "by the servers' own log"
    assert sum(asked.values()) <= len(pages) + len(HOSTS) + 6, "and few probes"


def test_a_crawl_that_is_killed_in_an_outage_loses_nothing(tmp_path: Path) -> None:
    """Ten hosts of ten ports, which go away together. The next process begins while they are gone."""
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    options = (seeds, "--job", job, "--allow-private", "--delay", "0.05", "--quiet", "--scope", "host")

    def is_down() -> bool:
        live = read_live(job)
        return live is not None and live.stats["outage"]["now"]

    sites = [Site(tree(40), address=(host, 0)) for host in HOSTS]
    with contextlib.ExitStack() as up:
        for site in sites:
            up.enter_context(site)
        seeds.write_text("".join(f"http://{site.hosts[0]}/\n" for site in sites))
        with running(*options) as crawl:
            wait_until(lambda: all(len(site.asked) > 3 for site in sites), "each has been asked")
            up.close()
            wait_until(is_down, "it is an outage")
            crawl.send_signal(signal.SIGKILL)
            crawl.wait()
    with running(*options) as crawl, contextlib.ExitStack() as up:
        wait_until(is_down, "it is an outage for the next process too")
        seen = json.loads(crawler("explain", job, f"http://{sites[0].hosts[0]}/page/39", "--json").out)
        assert seen["paused"].startswith("outage: no host answers since ")
        for site in sites:
            host, port = site.hosts[0].split(":")
            up.enter_context(Site(tree(40), address=(host, int(port))))
        assert crawl.wait() == 0
    assert Counter(row["outcome"] for row in rows(job)) == {"fetched": 40 * len(HOSTS)}
    assert verify(job).code == 0


ALONE = """
import asyncio, json, subprocess, sys
from crawler.web.fetch import Fetcher
from crawler.base.settings import FetchSettings

async def fetched():
    results = []
    async with Fetcher(FetchSettings(allow_private=True), concurrency=1, per_host=1) as fetcher:
        for url in ("http://192.0.2.1/", "http://name.test/", "http://[2001:db8::1]/", "http://127.0.0.1:1234/"):
            failure = await fetcher.fetch(url)
            results.append([failure.kind.value, failure.local, failure.address])
        subprocess.run([sys.argv[1], "link", "set", "lo", "up"], check=True)
        failure = await fetcher.fetch("http://127.0.0.1:1234/")
        results.append([failure.kind.value, failure.local, failure.address])
    print(json.dumps(results))

asyncio.run(fetched())
"""


def test_what_this_machine_says_of_its_own_line(tmp_path: Path) -> None:
    """In a network of its own, which has no interface that is up: nothing is sent to anybody."""
    alone = [need("unshare", "util-linux"), "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let a process have a network of its own")
    ran = subprocess.run(
        [*alone, sys.executable, "-c", ALONE, need("ip", "iproute2")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [
        ["unreachable", True, "192.0.2.1"],
        ["dns", True, None],
        ["unreachable", False, "2001:db8::1"],  # many machines never have a way to these
        ["unreachable", True, "127.0.0.1"],
        ["refused", False, "127.0.0.1"],
    ]
