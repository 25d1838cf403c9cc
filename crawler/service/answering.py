"""Reports of a worker about its partitions through the carrier, so that another machine can show the crawl.

    report     of each partition, put every few seconds, and once more when its run is over
    question   read once a second; one at a time, from any client
    answer     of each partition that the question is about

All of this uses only spare time: at most two reports a second, and after a question a rest of nine times its duration.
A value that the carrier refuses or loses is put again with the next report.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from crawler import __version__
from crawler.base.carrier.verbs import CRAWL, Carrier, CarrierError, CarrierRefusedError
from crawler.base.settings.parts import Settings
from crawler.cluster.claims import name_of
from crawler.engine.lifecycle import State
from crawler.engine.run import Run
from crawler.inspect.host_table import SORTS, Table
from crawler.job.crawl_file import CrawlFile
from crawler.job.partition.part_report import (
    Answer,
    HostAsked,
    HostsAsked,
    PartReport,
    Question,
    encode_report,
    packed,
    unpacked,
)
from crawler.job.stored_errors import DAMAGE
from crawler.service.run_view import RunView
from crawler.service.view import Unavailable

REPORT, QUESTION, ANSWER = "report", "question", "answer"  # values of a partition, of the crawl, of a partition
MOST_HOSTS = 1_000  # in an answer
EVERY = 5.0  # minimum seconds between two reports of a partition
_AT_ONCE = 2  # reports per second
_LOOK = 1.0  # seconds between two checks for a question
_REST = 9  # rest after a question, in durations of that question
_PATIENCE = 4.0  # timeout in seconds for a call to the carrier
_LAST = 10.0  # seconds for the last reports when the worker ends; they stop after the first failed call


class _Open(Struct):
    """A partition that is open here. ``stats()`` returns its statistics; ``told`` is the time of its last report."""

    run: Run
    view: RunView
    stats: Callable[[], dict[str, Any]]
    told: float = 0.0


class Answering:
    """The reports and answers of a worker with its partitions in ``directory``."""

    def __init__(self, carrier: Carrier, directory: Path, crawl: CrawlFile, clock: Callable[[], float]) -> None:
        self._carrier = carrier
        self._directory = directory
        self._directory_id = crawl.id
        self._clock = clock
        self._open: dict[int, _Open] = {}
        self._last: dict[int, tuple[int, bytes]] = {}  # epoch and last report of ended runs, not put yet
        self._answered: str | None = None  # the last question handled
        self._rests_until = 0.0  # time of the event loop

    def opened(self, number: int, run: Run, view: RunView, stats: Callable[[], dict[str, Any]]) -> None:
        """Add a partition that was opened. ``stats`` returns its latest statistics."""
        self._open[number] = _Open(run, view, stats)
        self._last.pop(number, None)

    def closing(self, number: int, stats: dict[str, Any]) -> None:
        """Remove a partition whose run is over while its job is still open. ``stats`` are its last statistics."""
        was = self._open.pop(number)
        was.view.close_now()
        data = encode_report(self._report(stats, last=True))
        if data is not None:
            self._last[number] = was.run.job.epoch, data

    async def keep(self) -> None:
        """Report and answer, until cancelled."""
        data = await self._called(self._carrier.get([CRAWL], QUESTION))
        before = unpacked(data[0], Question) if data else None
        self._answered = None if before is None else before.id  # this question was asked before the worker started
        while True:
            await self._report_some()
            if asyncio.get_running_loop().time() >= self._rests_until:
                await self._answer()
            await asyncio.sleep(_LOOK)

    def change(self, settings: Settings) -> None:
        """Use other settings for answers."""
        for each in self._open.values():
            each.view.change(settings)

    async def end(self) -> None:
        """Report how the runs ended, as far as time allows."""
        for each in self._open.values():
            each.view.close_now()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                await self._report_last()

    # -- reports -------------------------------------------------------------------------------------------------

    async def _report_some(self) -> None:
        await self._report_last()
        now, every = self._clock(), self._every()
        due = [(each.told, number) for number, each in self._open.items() if each.stats() and now >= each.told + every]
        # Partitions without a report go first, all at once: nobody else knows where they are.
        first = [number for told, number in due if not told]
        for number in first or [number for _, number in sorted(due)[:_AT_ONCE]]:
            partition = self._open.get(number)
            if partition is None:
                continue
            data = encode_report(self._report(_of_open(partition.stats()), last=False))
            if data is not None and not await self._put(number, partition.run.job.epoch, data):
                return
            partition.told = now

    async def _put(self, number: int, epoch: int, data: bytes) -> bool:
        """Put a report, unless the partition's next owner has put one. Returns True if the carrier answered."""
        putting = self._carrier.put(name_of(number), {REPORT: data}, (epoch, 0))
        return await self._called(putting) is not _FAILED

    async def _report_last(self) -> None:
        for number, last in list(self._last.items()):
            if not await self._put(number, *last):
                return
            if self._last.get(number) is last:
                del self._last[number]

    def _every(self) -> float:
        return max(EVERY, len(self._open) / _AT_ONCE)

    def _report(self, stats: dict[str, Any], *, last: bool) -> PartReport:
        return PartReport(
            program=__version__,
            at=self._clock(),
            every=self._every(),
            last=last,
            machine=socket.gethostname(),
            directory=str(self._directory.absolute()),
            directory_id=self._directory_id,
            process=os.getpid(),
            stats=stats,
        )

    # -- answers -------------------------------------------------------------------------------------------------

    async def _answer(self) -> None:
        """Answer the question if it is new."""
        data = await self._called(self._carrier.get([CRAWL], QUESTION))
        question = unpacked(data[0], Question) if data else None
        if question is None or question.id == self._answered or not _makes_sense(question):
            return
        self._answered = question.id
        clock = asyncio.get_running_loop().time
        began = clock()
        wanted = list(self._open) if question.partition is None else [question.partition]
        for number in wanted:
            partition = self._open.get(number)
            if partition is not None:
                answer = await self._answer_of(partition, question)
                await self._called(self._carrier.put(name_of(number), {ANSWER: answer}))
        self._rests_until = clock() + _REST * (clock() - began)

    async def _answer_of(self, partition: _Open, question: Question) -> bytes:
        content, fault = None, None
        try:
            content = await _looked(partition.view, question)
        except (Unavailable, *DAMAGE) as error:
            fault = " ".join(str(error).split())[:1_000]
        data = packed(Answer(question.id, content, fault))
        while data is None and isinstance(content, Table) and content.rows:
            content = content._replace(rows=content.rows[: len(content.rows) // 2])
            data = packed(Answer(question.id, content, fault))
        return data or packed(Answer(question.id, None, "the answer is too long for the carrier")) or b""

    async def _called(self, call: Any) -> Any:
        """Return the answer of the carrier, or ``_FAILED`` if there is none; the failure is reported elsewhere."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await call
        except (CarrierError, CarrierRefusedError, TimeoutError):
            return _FAILED


_FAILED: Any = ()


def _of_open(stats: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics to report for an open partition. After its run it counts as stopping, not as stopped: if it
    moves to another worker, it never stops."""
    return stats if stats.get("state") not in (State.STOPPED, State.ENDED) else stats | {"state": str(State.STOPPING)}


def _makes_sense(question: Question) -> bool:
    match question.asked:
        case HostsAsked(sort, _, offset, limit):
            return sort in SORTS and offset == 0 and 0 <= limit <= MOST_HOSTS
        case HostAsked(name):
            return name.isascii()
        case _:
            return True


async def _looked(view: RunView, question: Question) -> Any:
    """Return a partition's answer to a question in types that MessagePack supports. Raises Unavailable."""
    match question.asked:
        case HostsAsked() as asked:
            return await view.hosts(asked)
        case HostAsked(name):
            return msgspec.to_builtins(await view.host(name))
        case asked:
            return msgspec.to_builtins(await view.explain(asked.url))
