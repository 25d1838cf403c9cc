"""What the HTTP API asks of a crawl. The run in this process answers, or the files of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from crawler.inspect.explanation import Explanation
from crawler.inspect.host_table import Row
from crawler.job.inbox import Answer
from crawler.service.commands import Command, Refused


class Unavailable(Exception):
    """No crawl is running that could answer; the text is one line for the client."""


class Unreadable(Exception):
    """The job cannot be read; the text is one line for the client, without paths of this machine."""


@dataclass(frozen=True, slots=True)
class TableAsked:
    """Which part of the table of hosts, in which order."""

    sort: str
    descending: bool
    offset: int
    limit: int
    q: str


class Table(NamedTuple):
    """How many hosts match, and the rows asked for."""

    total: int
    rows: list[Row]


class View(Protocol):
    """A crawl as it is seen and told what to do. All methods raise Unavailable and Unreadable."""

    async def hosts(self, asked: TableAsked) -> Table: ...

    async def host(self, name: str) -> dict[str, Any] | None:
        """All of one host; None when the job has met no such host."""

    async def explain(self, text: str) -> Explanation: ...

    async def perform(self, command: Command) -> Refused | None:
        """Have a command carried out; None when it is done."""

    async def add(self, urls: Sequence[str], *, seed: bool) -> Answer:
        """Admit URLs; with ``seed`` they widen the scope."""

    async def close(self) -> None:
        """Break off what is under way; nothing is answered after that."""
