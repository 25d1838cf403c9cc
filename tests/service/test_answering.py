"""What a worker tells of its partitions through the carrier while their runs begin and end. In virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawler.base.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.job.partition.part_report import decode_report
from crawler.service.answering import REPORT, Answering
from tests.virtual import run_virtually

CRAWL: Any = SimpleNamespace(id="home")


class Told:
    """What is told of partition 0, which a worker has open."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._carrier = MemoryCarrier(Holdings(), self.loop.time)
        self._stats: dict[str, Any] = {}
        self.answering = Answering(self._carrier, Path("job"), CRAWL, self.loop.time)
        view: Any = SimpleNamespace(close_now=lambda: None)
        run: Any = None
        self.answering.opened(0, run, view, lambda: self._stats)
        self._task = asyncio.ensure_future(self.answering.keep())

    async def after(self, state: str, seconds: float = 60.0) -> tuple[str, bool]:
        """The state that is told once the run has been in that one for so long, and whether it is the last one."""
        self._stats = {"state": state}
        await asyncio.sleep(seconds)
        report = decode_report((await self._carrier.get(["p0"], REPORT))[0])
        assert report is not None
        return report.stats["state"], report.last

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


@pytest.mark.parametrize("over", ["stopped", "ended"])
@pytest.mark.parametrize("has_moved", [True, False])
def test_that_a_run_is_over_is_told_when_it_is_known_whether_the_partition_has_moved(
    over: str, has_moved: bool
) -> None:
    async def test() -> None:
        told = Told()
        assert await told.after("running") == ("running", False)
        assert await told.after("stopping") == ("stopping", False)
        assert await told.after(over) == ("stopping", False)
        told.answering.closing(0, None if has_moved else {"state": over})
        assert await told.after(over) == (("stopping", False) if has_moved else (over, True))
        await told.end()

    run_virtually(test())
