"""A crawl as reported by its workers through the carrier, wherever they are.

Reading changes nothing: reports are read, and a question is put next to them, which workers may answer. Reports may be
lost or late. If a partition is at work but its report does not change, its worker is gone: the machine or its
connection failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler import __version__
from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, Carrier, CarrierRefusedError
from crawler.cluster.agreement import PRESENT_INTERVAL, known_crawl
from crawler.cluster.claims import name_of, names_of
from crawler.job.crawl_file import CrawlFile, holds_crawl, partition_directory, read_crawl_file
from crawler.job.directory import JobError, holds_job
from crawler.job.metrics.pooled_stats import GONE, UNTOLD, Part, Whereabouts, pool
from crawler.job.partition.part_report import (
    Answer,
    HostAsked,
    HostsAsked,
    PartReport,
    Question,
    UrlAsked,
    encode_question,
    unpacked,
)
from crawler.service.answering import ANSWER, QUESTION, REPORT
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

_AT_WORK = ("running", "stopping", "paused")
_LATE = 3.0  # seconds of delay allowed for a report
_PATIENCE = 6.0  # seconds to wait for answers ...
_AGAIN = 2.0  # ... after which the question is put again: another client may have replaced it
_POLL = 0.2


class Report(Struct, frozen=True):
    """The latest report of a partition, and the time of its arrival here by a monotonic clock."""

    number: int
    report: PartReport
    new_at: float

    def age(self, now: float) -> float:
        """Return its age at ``now``, seconds since 1970, by the clocks of two machines."""
        return max(0.0, now - self.report.at)

    @property
    def is_at_work(self) -> bool:
        """True if a worker ran the partition at that time."""
        return not self.report.last and self.report.stats.get("state") in _AT_WORK

    def is_old(self, now: float) -> bool:
        """True if a newer report is overdue, provided that the clocks agree."""
        return self.is_at_work and self.age(now) > 2 * self.report.every + _LATE

    def is_gone(self, now: float, waited_to: float) -> bool:
        """True if no worker runs the partition. ``waited_to`` is the current time of the monotonic clock."""
        waited = waited_to - self.new_at
        late = waited > self.report.every + _LATE
        return self.is_at_work and late and (self.is_old(now) or waited > 2 * self.report.every + _LATE)


class Answers(Struct, frozen=True):
    """The answers of partitions' owners by partition number, and the partitions without an answer."""

    content: dict[int, Any]
    missing: list[int]


class EngineCrawl:
    """The crawl known to the carrier, at an engine called ``where``. ``clock`` returns seconds since 1970, ``steady``
    seconds of a monotonic clock."""

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

    @classmethod
    async def over(cls, carrier: Carrier, name: str, where: str, clock: Callable[[], float]) -> EngineCrawl:
        """Return the crawl of that name. Raises CarrierRefusedError if there is none, CarrierError."""
        for pause in (PRESENT_INTERVAL + 0.5, 0.0):  # workers soon report to an engine that lost everything
            crawl = await known_crawl(carrier, where)
            if crawl is not None:
                return cls(carrier, crawl, where, clock)
            await asyncio.sleep(pause)
        raise CarrierRefusedError(f"{where} has no crawl {name!r}")

    @property
    def told(self) -> list[Report]:
        """The known reports, ordered by partition."""
        return [self._told[number] for number in sorted(self._told)]

    @property
    def untold(self) -> list[int]:
        """The partitions without a report."""
        return [number for number in range(self.crawl.partitions) if number not in self._told]

    def owner_of(self, text: str) -> int | None:
        """Return the partition that owns a URL; None if the text is not a URL."""
        url = Canonicaliser(self.crawl.shaping["canonical"]["rules"]).canonicalise(text)
        return self.crawl.placement.of(url.href) if isinstance(url, Canonical) else None

    async def look(self) -> None:
        """Read the workers' reports. Raises CarrierError, CarrierRefusedError."""
        names = names_of(range(self.crawl.partitions))
        for number, data in enumerate(await self._carrier.get(names, REPORT)):
            report = unpacked(data, PartReport)
            if report is None:
                continue  # the carrier has lost it: the previous report still counts
            if report.program != __version__:
                raise CarrierRefusedError(
                    f"the workers at {self.where} are crawler {report.program}, and this is crawler {__version__}: "
                    "use the same version"
                )
            before = self._told.get(number)
            if before is None or before.report != report:
                self._told[number] = Report(number, report, self._steady())

    async def look_well(self) -> None:
        """Read the reports, and again if a worker seems to be gone, since only its next report can tell. Raises
        CarrierError, CarrierRefusedError, also if no worker has reported."""
        await self.look()
        if self.untold:  # the crawl has just started, or the engine has just lost everything
            await asyncio.sleep(2 * _POLL + _AGAIN)
            await self.look()
        old = [told for told in self.told if told.is_old(self._clock())]
        if old:
            await asyncio.sleep(max(told.report.every for told in old) + _LATE + _POLL)
            await self.look()
        if not self._told:
            raise CarrierRefusedError(f"{self.where} has no report of any worker of the crawl {self.crawl.name!r} yet")

    def stats(self, now: float) -> dict[str, Any]:
        """Return the dictionary of ``stats --json`` at ``now`` from all reports. There must be at least one."""
        gone = self.gone(now)
        parts = [_part(told, now, gone=told in gone) for told in self.told]
        return pool(parts, self.crawl.partitions, missing=UNTOLD)

    def gone(self, now: float) -> list[Report]:
        """Return the reports of partitions whose worker is gone."""
        at = self._steady()
        return [told for told in self.told if told.is_gone(now, at)]

    def seconds_since(self, told: Report) -> float:
        """Return the seconds since a report arrived here."""
        return self._steady() - told.new_at

    async def ask(self, asked: HostsAsked | HostAsked | UrlAsked, partition: int | None = None) -> Answers:
        """Ask the owners of all partitions, or the owner of one, and wait for the answers of those not gone. Raises
        CarrierError, CarrierRefusedError, and ValueError if the question is too long."""
        question = Question(entropy.random_bytes(8).hex(), asked, partition)
        gone = self.gone(self._clock())
        told = [each for each in self.told if partition in (None, each.number) and each not in gone]
        wanted = {each.number for each in told if each.is_at_work}
        found: dict[int, Any] = {}
        loop = asyncio.get_running_loop()
        put_at, until = loop.time(), loop.time() + _PATIENCE
        while wanted - found.keys() and loop.time() < until:
            if loop.time() >= put_at:
                put_at = loop.time() + _AGAIN
                await self._carrier.put(CRAWL, {QUESTION: encode_question(question)})
            await asyncio.sleep(_POLL)
            for number, answer in await self._answers(sorted(wanted - found.keys())):
                if answer is not None and answer.id == question.id and answer.fault is None:
                    found[number] = answer.content
        all_of_them = range(self.crawl.partitions) if partition is None else [partition]
        return Answers(found, [number for number in all_of_them if number not in found])

    async def _answers(self, numbers: Iterable[int]) -> list[tuple[int, Any]]:
        numbers = list(numbers)
        values = await self._carrier.get([name_of(number) for number in numbers], ANSWER)
        return [(number, unpacked(value, Answer)) for number, value in zip(numbers, values, strict=True)]

    # -- directories -----------------------------------------------------------------------------------------------

    def directory_here(self) -> Path | None:
        """Return the directory on this machine that has all partitions of the crawl; None if there is none, or if a
        partition has no report. Raises OSError."""
        found = {(told.report.directory, told.report.directory_id) for told in self._told.values()}
        if self.untold or len(found) != 1:
            return None
        ((directory, directory_id),) = found
        place = Path(directory)
        is_whole = all(holds_job(partition_directory(place, number)) for number in range(self.crawl.partitions))
        return place if is_here(place, directory_id) and is_whole else None

    def elsewhere(self) -> str:
        """Return where the partitions are, in one line."""
        places: dict[tuple[str, str], list[int]] = {}
        for told in self.told:
            places.setdefault((told.report.machine, told.report.directory), []).append(told.number)
        parts = [
            f"{partitions_text(numbers)} {_is(numbers)} on {machine} in {directory}"
            for (machine, directory), numbers in places.items()
        ]
        if self.untold:
            parts.append(f"no reports of {partitions_text(self.untold)}")
        return "; ".join(parts)


def is_here(directory: Path, directory_id: str) -> bool:
    """Return True if the directory with that id is on this machine. Machines may share a name. Raises OSError."""
    with contextlib.suppress(JobError):
        return holds_crawl(directory) and read_crawl_file(directory).id == directory_id
    return False


def partitions_text(numbers: Iterable[int]) -> str:
    """Return the names of partitions, with consecutive ones as a range."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]:02}" if len(run) == 1 else f"{run[0]:02}-{run[-1]:02}" for run in runs]
    several = len(runs) > 1 or any(len(run) > 1 for run in runs)
    return f"{'partitions' if several else 'partition'} {', '.join(words)}"


def _is(numbers: list[int]) -> str:
    return "is" if len(numbers) == 1 else "are"


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
