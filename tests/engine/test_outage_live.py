"""Our own line is down for a while, with real servers and connections. Each host is an address of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

from crawler.base.settings.load import settings_from
from crawler.job.live_status import read_live
from tests.jobs import rows, verify
from tests.program import PATIENCE, crawler, running, wait_until
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
        assert json.loads(crawler("explain", job, f"http://{sites[0].hosts[0]}/page/39", "--json").out)["paused"]
        for site in sites:
            host, port = site.hosts[0].split(":")
            up.enter_context(Site(tree(40), address=(host, int(port))))
        assert crawl.wait() == 0
    assert Counter(row["outcome"] for row in rows(job)) == {"fetched": 40 * len(HOSTS)}
    assert verify(job).code == 0
