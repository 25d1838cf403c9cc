"""Carriers that tests compare: how to open one, and how to lose what it holds."""

from __future__ import annotations

import itertools
from typing import Protocol

from crawler.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.carrier.verbs import Carrier

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
        self._holdings = Holdings()
        self._carrier = MemoryCarrier(self._holdings)

    async def open(self) -> Carrier:
        return self._carrier

    async def lose(self) -> None:
        self._holdings.forget()

    async def close(self) -> None:
        await self._carrier.close()


def crawl_name() -> str:
    """A name that no other test of this process uses."""
    return f"crawl-{next(_CRAWLS)}"
