"""What the HTTP API asks of a crawl. The run in this process answers, or the files of a job."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

from crawler.base.faults import UserFault
from crawler.base.settings.parts import Settings
from crawler.inspect.explanation import Explanation
from crawler.inspect.host_table import Row, Table
from crawler.job.inbox import Answer
from crawler.job.output.finished import Choice
from crawler.job.partition.part_report import HostsAsked
from crawler.service.commands import Command, Result


class Unavailable(UserFault):
    """No running crawl can answer. The text is one line for the client."""


class Unreadable(Exception):
    """The job cannot be read. The text is one line for the client, without paths of this machine."""


class View(Protocol):
    """Shows a crawl and controls it. All methods raise Unavailable and Unreadable."""

    async def settings(self) -> Settings:
        """Those of the run, or of the last one."""

    async def hosts(self, asked: HostsAsked) -> Table: ...

    def all_hosts(self) -> AsyncGenerator[list[Row]]:
        """The rows of all hosts, in order of name, some at a time."""

    async def host(self, name: str) -> dict[str, Any] | None:
        """Return everything about one host; None if the job has no such host."""

    async def explain(self, text: str) -> Explanation: ...

    async def changes(self, since: str, limit: int) -> list[bytes]:
        """Return at most so many records after a cursor, as lines with their changes. Raises CursorError."""

    async def perform(self, command: Command) -> Result:
        """Have a command carried out, and return the result."""

    async def add(self, urls: Sequence[str], *, seed: bool, priority: int | None = None) -> Answer:
        """Admit URLs. With ``seed``, they widen the scope."""

    async def put_back(self, choice: Choice, priority: int | None = None) -> Answer:
        """Queue finished URLs for another visit, first in a class if one is given: new are those that were queued,
        known those that were pending."""

    async def change_class(self, pattern: str, priority: int) -> Answer:
        """Give the pending URLs that match a pattern a class: new are those that got it."""

    async def close(self) -> None:
        """Abandon the requests in progress. Nothing is answered after that."""
