"""Sends a worker's reports on its partitions through the carrier, so that another machine can show the crawl.

Each partition is reported every few seconds, and once more when its run is over. To leave time for the crawl, a worker
sends at most two reports a second. A report that the carrier refuses or loses is replaced by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler import __version__
from crawler.base.carrier.verbs import Carrier, CarrierError, CarrierRefusedError
from crawler.cluster.claims import name_of
from crawler.engine.lifecycle import State
from crawler.engine.run import Run
from crawler.job.crawl_file import CrawlFile
from crawler.job.partition.part_report import PartReport, encode_report

REPORT = "report"  # the key of a partition's report at the carrier
EVERY = 5.0  # minimum seconds between two reports of a partition
_AT_ONCE = 2  # reports per second
_LOOK = 1.0  # seconds between two checks for due reports
_PATIENCE = 4.0  # timeout in seconds for a call to the carrier
_LAST = 10.0  # seconds to send the last reports when the worker ends; sending stops after the first failed call


class _Open(Struct):
    """A partition that this worker has open. ``stats()`` returns its statistics; ``told`` is the time of its last
    report."""

    run: Run
    stats: Callable[[], dict[str, Any]]
    told: float = 0.0


class CarrierReports:
    """Sends the reports of a worker whose partitions are in ``directory``."""

    def __init__(self, carrier: Carrier, directory: Path, crawl: CrawlFile, clock: Callable[[], float]) -> None:
        self._carrier = carrier
        self._directory = directory
        self._directory_id = crawl.id
        self._clock = clock
        self._open: dict[int, _Open] = {}
        self._last: dict[int, tuple[int, bytes]] = {}  # epoch and last report of each ended run, until sent

    def opened(self, number: int, run: Run, stats: Callable[[], dict[str, Any]]) -> None:
        """Add a partition that was opened. ``stats`` returns its latest statistics."""
        self._open[number] = _Open(run, stats)
        self._last.pop(number, None)

    def closing(self, number: int, stats: dict[str, Any]) -> None:
        """Remove a partition whose run is over while its job is still open. ``stats`` are its last statistics."""
        was = self._open.pop(number)
        data = encode_report(self._report(stats, last=True))
        if data is not None:
            self._last[number] = was.run.job.epoch, data

    async def keep(self) -> None:
        """Report until cancelled."""
        while True:
            await self._report_some()
            await asyncio.sleep(_LOOK)

    async def end(self) -> None:
        """Send the last reports of the runs that have ended, for at most `_LAST` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                await self._report_last()

    async def _report_some(self) -> None:
        await self._report_last()
        now, every = self._clock(), self._every()
        due = [(each.told, number) for number, each in self._open.items() if each.stats() and now >= each.told + every]
        # Partitions without a report go first, all at once: no other process knows where they are.
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
        """Put a report into the carrier, unless the partition's next owner has already put one there. Returns True if
        the carrier answered; failures of the carrier are reported elsewhere."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._carrier.put(name_of(number), {REPORT: data}, (epoch, 0))
        except (CarrierError, CarrierRefusedError, TimeoutError):
            return False
        return True

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


def _of_open(stats: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics to report for an open partition. After its run the partition counts as stopping, not as
    stopped, because another worker may continue it."""
    return stats if stats.get("state") not in (State.STOPPED, State.ENDED) else stats | {"state": str(State.STOPPING)}
