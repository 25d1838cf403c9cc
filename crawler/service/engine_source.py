"""Shows the statistics of a crawl, from its workers' reports through the carrier."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import Carrier, CarrierError, CarrierRefusedError
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import Settings
from crawler.cluster.agreement import settings_of_crawl
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Kind
from crawler.service.engine_crawl import EngineCrawl, Report
from crawler.service.job_survey import JobSurvey
from crawler.service.source import Source, only_statistics
from crawler.service.view_errors import Unavailable

T = TypeVar("T")

_PATIENCE = 10.0  # timeout in seconds for one call


class EngineSource(Source):
    """The crawl ``name`` at ``engine``. The source has its own event loop, which only one thread at a time may use."""

    def __init__(self, engine: str, name: str, clock: Callable[[], float]) -> None:
        """Raises CarrierError, CarrierRefusedError."""
        # The path only carries the name; no directory can exist there.
        super().__init__(Path(os.devnull, name), clock, CrawlHistory(tells=False))
        self._gone: set[int] = set()
        self._fault = ""
        self._loop = asyncio.new_event_loop()
        self._carrier: Carrier | None = None
        try:
            self.crawl = self._loop.run_until_complete(self._found(engine, name))
            self._wait(self.crawl.look_well(), 60.0)
        except BaseException:
            self.close()
            raise
        self.take("")

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

    def stats(self) -> dict[str, Any]:
        return self.crawl.stats(self.clock())

    def read(self) -> str:
        """Read the workers' reports. If the engine cannot be reached, keep the previous reports and return the
        reason."""
        try:
            self._wait(self.crawl.look(), _PATIENCE)
        except CarrierError as error:
            return f"the engine does not answer: {error}"
        return ""

    def take(self, reading: str) -> None:
        now, before, self._fault = self.clock(), self._fault, reading
        if reading != before:
            self.history.events.add(now, Kind.ERROR if reading else Kind.RUN, reading or "the engine answers again")
        if reading:
            return
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
        """Return the settings that the carrier passes to workers without their own; the defaults if it has none."""
        assert self._carrier is not None
        try:
            return settings_from(self._wait(settings_of_crawl(self._carrier, self.crawl.where), _PATIENCE))
        except (CarrierRefusedError, SettingsError):
            return Settings()
        except CarrierError as error:
            raise Unavailable(f"The engine does not answer: {error}.") from error

    def survey(self) -> JobSurvey:
        """Return a survey without records."""
        return _NoRecords(self.directory, lambda: None)

    def _wait(self, call: Coroutine[Any, Any, T], seconds: float) -> T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(call, seconds))
        except TimeoutError:
            raise CarrierError(f"no answer in {seconds:g} s") from None


class _NoRecords(JobSurvey):
    async def _refuse(self) -> Any:
        raise only_statistics()

    answer = final = report = _refuse


def gone_text(told: Report, now: float) -> str:
    """Return a sentence about a worker that is gone."""
    report = told.report
    return (
        f"partition {told.number:02} has not reported for {told.age(now):.0f} s: its worker on {report.machine} is "
        f"gone. To continue it, start another worker there with --dir {report.directory}"
    )
