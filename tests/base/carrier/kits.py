"""Carriers that tests compare: how to open one, and how to lose what it holds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Protocol

from crawler.base.carrier.local_client import LocalCarrier
from crawler.base.carrier.local_server import LocalServer
from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import Carrier
from tests.base.carrier.redis_server import RedisServer
from tests.holdings import LosingHoldings

_CRAWLS = itertools.count(1)


class Kit(Protocol):
    """One carrier for the crawl of one test."""

    async def open(self) -> Carrier:
        """A carrier of its own, which sees what others of this kit see. The kit closes it."""

    async def lose(self) -> None:
        """Lose everything that the carrier holds."""

    async def close(self) -> None:
        """Close all that were opened."""


class MemoryKit:
    """All share one carrier, as the owners of a simulation do."""

    def __init__(self) -> None:
        self._holdings = LosingHoldings()
        self._carrier = MemoryCarrier(self._holdings)

    async def open(self) -> Carrier:
        return self._carrier

    async def lose(self) -> None:
        self._holdings.forget()

    async def close(self) -> None:
        await self._carrier.close()


class LocalKit:
    """Each has a connection of its own to the server of a machine."""

    def __init__(self, directory: Path) -> None:
        self._holdings = LosingHoldings()
        self._server = LocalServer(directory, MemoryCarrier(self._holdings))
        self._opened: list[LocalCarrier] = []

    async def start(self) -> None:
        await self._server.start()

    async def open(self) -> Carrier:
        self._opened.append(LocalCarrier(self._server.path))
        return self._opened[-1]

    async def lose(self) -> None:
        self._holdings.forget()

    async def close(self) -> None:
        for carrier in self._opened:
            await carrier.close()
        await self._server.close()


class RedisKit:
    """Each has connections of its own to the servers. The crawl is new to them."""

    def __init__(self, servers: list[RedisServer]) -> None:
        self._servers = servers
        self._url = "redis://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)
        self._crawl = crawl_name()
        self._opened: list[Carrier] = []

    async def open(self) -> Carrier:
        self._opened.append(await open_carrier(self._url, self._crawl))
        return self._opened[-1]

    async def lose(self) -> None:
        for server in self._servers:
            server.say("FLUSHALL")

    async def close(self) -> None:
        for carrier in self._opened:
            await carrier.close()


def crawl_name() -> str:
    """A name that no other test of this process uses."""
    return f"crawl-{next(_CRAWLS)}"
