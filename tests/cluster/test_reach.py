"""What is said of a carrier that cannot be reached."""

from __future__ import annotations

import asyncio

import pytest

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.reach import Reach
from tests.cluster.members import Line
from tests.virtual import run_virtually


class Calls:
    """Calls to one carrier; time is a number."""

    def __init__(self) -> None:
        self.now, self.said = 0.0, list[str]()
        self.line = Line(MemoryCarrier())
        self.reach = Reach(self.line, lambda: self.now, self.said.append)

    async def ask(self) -> None:
        await self.reach.call(self.line.last(["p0"]))


def test_a_call_without_an_answer_fails_after_a_while() -> None:
    calls = Calls()

    async def test() -> float:
        with pytest.raises(CarrierError, match="no answer"):
            await calls.reach.call(asyncio.Event().wait())
        return asyncio.get_running_loop().time()

    assert run_virtually(test()) == pytest.approx(4.0)
