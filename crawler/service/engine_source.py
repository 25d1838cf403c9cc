"""Shows a crawl as one job, from its workers' reports through the carrier."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import Carrier, CarrierError, CarrierRefusedError
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import Settings
from crawler.cluster.agreement import settings_of_crawl
from crawler.inspect.explanation import Explanation, Ownership
from crawler.inspect.host_table import Row, Table, merged
from crawler.job.crawl_file import partition_directory
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Kind
from crawler.job.partition.part_report import HostAsked, HostsAsked, UrlAsked
from crawler.service.answering import MOST_HOSTS
from crawler.service.commands import Command, Refusal, Refused, Result
from crawler.service.engine_crawl import EngineCrawl, Report, is_here, partitions_text
from crawler.service.job_survey import JobSurvey
from crawler.service.source import Source
from crawler.service.view import Unavailable
from crawler.service.view_answers import Encoded

T = TypeVar("T")

_PATIENCE = 10.0  # timeout in seconds for one call
_NOT_HERE = "This page shows the crawl through its engine: use the crawl's directories on its machines for that."
_ONLY_LOOKS = Refused(Refusal.NOT_NOW, "a crawl is read-only through its engine: control it on its machines")


class EngineSource(Source):
    """The crawl ``name`` at ``engine``. It has its own event loop, which one thread at a time may use."""

    def __init__(self, engine: str, name: str, clock: Callable[[], float]) -> None:
        """Raises CarrierError, CarrierRefusedError."""
        super().__init__(
            Path(os.devnull, name), clock, CrawlHistory(tells=False)
        )  # the path only carries the name; no directory can exist there
        self.missing: list[int] = []  # partitions missing from the last answer
        self._gone: set[int] = set()
        self._loop = asyncio.new_event_loop()
        self._carrier: Carrier | None = None
        try:
            self.crawl = self._loop.run_until_complete(self._found(engine, name))
            self._wait(self.crawl.look_well(), 60.0)
        except BaseException:
            self.close()
            raise
        self.take(None)

    async def _found(self, engine: str, name: str) -> EngineCrawl:
        self._carrier = await open_carrier(engine, name)
        return await EngineCrawl.over(self._carrier, name, engine, self.clock)

    def close(self) -> None:
        """Close the connection and the event loop."""
        if self._carrier is not None:
            self._loop.run_until_complete(self._carrier.close())
        self._loop.close()

    @property
    def is_running(self) -> bool:
        gone = {told.number for told in self.crawl.gone(self.clock())}
        return any(told.is_at_work and told.number not in gone for told in self.crawl.told)

    def is_gone(self) -> bool:
        """Return False: the directories are on other machines."""
        return False

    def stats(self) -> dict[str, Any]:
        return self.crawl.stats(self.clock())

    def read(self) -> None:
        """Read the workers' reports. If the engine cannot be reached, the reports only get older."""
        try:
            self._wait(self.crawl.look(), _PATIENCE)
        except CarrierError:
            return

    def take(self, reading: None) -> None:
        now = self.clock()
        gone = {told.number: told for told in self.crawl.gone(now)}
        for number in sorted(gone.keys() - self._gone):
            self.history.events.add(now, Kind.ERROR, gone_text(gone[number], now))
        for number in sorted(self._gone - gone.keys()):
            self.history.events.add(now, Kind.RUN, f"partition {number:02} is reported again")
        self._gone = set(gone)
        known, since = self.crawl.told, self.crawl.seconds_since
        told = [(each.number, now - since(each), each.report.stats) for each in known]
        self.observe(told, now, max(each.report.every for each in known))

    def settings(self) -> Settings:
        """Return the settings of workers that have none of their own; defaults if the carrier has none."""
        assert self._carrier is not None
        try:
            return settings_from(self._wait(settings_of_crawl(self._carrier, self.crawl.where), _PATIENCE))
        except (CarrierRefusedError, SettingsError):
            return Settings()

    def hosts(self, asked: HostsAsked) -> Table:
        """Return the hosts of the partitions whose owners answer."""
        question = asked.of_partition()
        if question.limit > MOST_HOSTS:
            raise Unavailable(f"Through an engine at most {MOST_HOSTS:,} hosts can be read.")
        answers = self._wait(self.crawl.ask(question), _PATIENCE)
        self.missing = answers.missing
        return merged((({"partition": number}, Table(*each)) for number, each in answers.content.items()), asked)

    def all_hosts(self) -> Generator[list[Row]]:
        raise Unavailable(_NOT_HERE)

    def host(self, name: str) -> dict[str, Any] | None:
        number = self.crawl.crawl.placement.of_host(name)
        page = self._one(self._wait(self.crawl.ask(HostAsked(name), number), _PATIENCE).content, number)
        return None if page is None else page | {"partition": number}

    def changes(self, since: str, limit: int) -> list[bytes] | None:
        """Raise Unavailable: records stay on their machines."""
        raise Unavailable(_NOT_HERE)

    def explain(self, text: str) -> Explanation:
        """Return the explanation by the URL's owner. Raises Unavailable if it does not answer."""
        number = self.crawl.owner_of(text)
        asked = next((told.number for told in self.crawl.told if told.is_at_work), None) if number is None else number
        answers = self._wait(self.crawl.ask(UrlAsked(text), asked), _PATIENCE)
        found = msgspec.convert(self._one(answers.content, asked), Explanation)
        if number is not None:
            found.partition = Ownership(number, self.crawl.crawl.partitions, begun=True)
        return found

    def survey(self) -> JobSurvey:
        """Return a survey without records."""
        return _NoRecords(self.directory, lambda: None)

    async def perform(self, command: Command) -> Result:
        return _ONLY_LOOKS

    def directory_of(self, text: str) -> Path | None:
        """Return the directory of the partition that owns a URL, if it is on this machine. Raises OSError."""
        number = self.crawl.owner_of(text)
        for told in self.crawl.told:
            if told.number == number and is_here(Path(told.report.directory), told.report.directory_id):
                return partition_directory(Path(told.report.directory), told.number)
        return None

    def _one(self, content: dict[int, Any], number: int | None) -> Any:
        if number is None or number not in content:
            which = "no worker" if number is None else f"no worker with {partitions_text([number])}"
            raise Unavailable(f"{which} answers; {self.crawl.elsewhere()}")
        return content[number]

    def _wait(self, call: Coroutine[Any, Any, T], seconds: float) -> T:
        async def waited() -> T:
            try:
                async with asyncio.timeout(seconds):
                    return await call
            except TimeoutError:
                raise CarrierError(f"no answer in {seconds:g} s") from None

        return self._loop.run_until_complete(waited())


class _NoRecords(JobSurvey):
    async def answer(self) -> Encoded:
        raise Unavailable("the records stay in the crawl's directories on its machines")


def gone_text(told: Report, now: float) -> str:
    """Return a sentence about a worker that is gone."""
    report = told.report
    return (
        f"no report of partition {told.number:02} for {told.age(now):.0f} s: its worker on {report.machine} is gone; "
        f"another worker there, with --dir {report.directory}, continues it"
    )
