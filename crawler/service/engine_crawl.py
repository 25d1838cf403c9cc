"""A crawl as its workers, on any machine, report it through the carrier.

Reports may be lost or late. If a running partition's report stops changing, its worker is gone: the machine or its
connection failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawler import __version__
from crawler.base.carrier.verbs import Carrier, CarrierRefusedError
from crawler.cluster.agreement import PRESENT_INTERVAL, known_crawl
from crawler.cluster.claims import names_of
from crawler.job.crawl_file import CrawlFile
from crawler.job.metrics.pooled_stats import GONE, UNTOLD, Part, Whereabouts, pool
from crawler.job.partition.part_report import PartReport, decode_report
from crawler.service.carrier_reports import REPORT

_AT_WORK = ("running", "stopping", "paused")
_LATE = 3.0  # seconds of delay allowed for a report
_AGAIN = 2.4  # seconds to wait for the first reports
_SLACK = 0.2  # extra seconds to wait for an overdue report


class Report(Struct, frozen=True):
    """The latest report of a partition, and when it arrived here, by a monotonic clock."""

    number: int
    report: PartReport
    new_at: float

    def age(self, now: float) -> float:
        """Return the report's age at ``now`` (seconds since 1970). This compares the clocks of two machines."""
        return max(0.0, now - self.report.at)

    @property
    def is_at_work(self) -> bool:
        """True if a worker was running the partition when it sent the report."""
        return not self.report.last and self.report.stats.get("state") in _AT_WORK

    def is_old(self, now: float) -> bool:
        """True if a newer report is overdue, provided that the clocks agree."""
        return self.is_at_work and self.age(now) > 2 * self.report.every + _LATE

    def is_gone(self, now: float, waited_to: float) -> bool:
        """True if no worker runs the partition any more. ``waited_to`` is the current time of the monotonic clock."""
        waited = waited_to - self.new_at
        late = waited > self.report.every + _LATE
        return self.is_at_work and late and (self.is_old(now) or waited > 2 * self.report.every + _LATE)


class EngineCrawl:
    """A crawl that the carrier knows; ``where`` names its engine in messages. ``clock`` returns seconds since 1970,
    ``steady`` seconds of a monotonic clock."""

    def __init__(
        self,
        carrier: Carrier,
        crawl: CrawlFile,
        where: str,
        clock: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.crawl = crawl
        self.where = where
        self._carrier = carrier
        self._clock = clock
        self._steady = steady
        self._told: dict[int, Report] = {}
        self._asked_at: float | None = None  # since when the engine has not answered; workers cannot report then

    @classmethod
    async def over(cls, carrier: Carrier, name: str, where: str, clock: Callable[[], float]) -> EngineCrawl:
        """Return the crawl of that name. Raises CarrierError, and CarrierRefusedError if there is no such crawl."""
        for pause in (PRESENT_INTERVAL + 0.5, 0.0):  # workers soon report to an engine that has lost everything
            crawl = await known_crawl(carrier, where)
            if crawl is not None:
                return cls(carrier, crawl, where, clock)
            await asyncio.sleep(pause)
        raise CarrierRefusedError(f"{where} has no crawl {name!r}")

    @property
    def told(self) -> list[Report]:
        """The known reports, ordered by partition."""
        return [self._told[number] for number in sorted(self._told)]

    async def look(self) -> None:
        """Read the latest reports of the workers. Raises CarrierError, CarrierRefusedError."""
        names, self._asked_at = names_of(range(self.crawl.partitions)), self._asked_at or self._steady()
        found = await self._carrier.get(names, REPORT)
        silent = self._steady() - self._asked_at
        self._told = {number: replace(told, new_at=told.new_at + silent) for number, told in self._told.items()}
        self._asked_at = None
        for number, data in enumerate(found):
            report = decode_report(data)
            if report is None:
                continue  # the carrier has lost the report: the previous one still counts
            if report.program != __version__:
                raise CarrierRefusedError(
                    f"the workers at {self.where} run crawler {report.program}, but this is crawler {__version__}: "
                    "use the same version"
                )
            before = self._told.get(number)
            if before is None or before.report != report:
                self._told[number] = Report(number, report, self._steady())

    async def look_well(self) -> None:
        """Read the reports. If a worker seems to be gone, wait for its next report and read again. Raises CarrierError,
        and CarrierRefusedError including when no worker has reported."""
        await self.look()
        if len(self._told) < self.crawl.partitions:  # the crawl has just started, or the engine lost everything
            await asyncio.sleep(_AGAIN)
            await self.look()
        old = [told for told in self.told if told.is_old(self._clock())]
        if old:
            await asyncio.sleep(max(told.report.every for told in old) + _LATE + _SLACK)
            await self.look()
        if not self._told:
            raise CarrierRefusedError(
                f"{self.where} has not received a report from any worker of the crawl {self.crawl.name!r} yet"
            )

    def stats(self, now: float) -> dict[str, Any]:
        """Return the dictionary of ``stats --json`` at ``now`` from all reports. There must be at least one."""
        gone = self.gone(now)
        parts = [_part(told, now, gone=told in gone) for told in self.told]
        return pool(parts, self.crawl.partitions, missing=UNTOLD)

    def gone(self, now: float) -> list[Report]:
        """Return the reports of partitions whose worker is gone. While the engine does not answer, none is added."""
        at = self._asked_at or self._steady()
        return [told for told in self.told if told.is_gone(now, at)]

    def seconds_since(self, told: Report) -> float:
        """Return the seconds since a report arrived here."""
        return self._steady() - told.new_at


def _part(told: Report, now: float, *, gone: bool) -> Part:
    report, age = told.report, told.age(now)
    stats = dict(report.stats)
    if stats.get("checkpoint"):
        stats["checkpoint"] = stats["checkpoint"] | {"age_seconds": stats["checkpoint"]["age_seconds"] + age}
    if gone:
        # The next owner requests the URLs in flight again.
        pending = stats["urls_pending"] + stats["urls_in_flight"]
        stats |= {"state": GONE, "urls_pending": pending, "urls_in_flight": 0, "slots": None, "time_left": None}
    where = Whereabouts(report.machine, report.directory, age)
    return Part(told.number, stats, None if gone or report.last else report.process, where=where)
