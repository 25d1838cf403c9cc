"""What is said of a carrier that cannot be reached."""

from __future__ import annotations

import asyncio

import pytest

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import CarrierError, CarrierFullError
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


def test_an_outage_is_one_line_and_its_end_another() -> None:
    calls = Calls()

    async def test() -> None:
        calls.line.is_cut = True
        for _ in range(20):
            calls.now += 1.0
            with pytest.raises(CarrierError):
                await calls.ask()
        calls.line.is_cut = False
        for _ in range(3):
            await calls.ask()

    asyncio.run(test())
    assert len(calls.said) == 2
    assert calls.said[0].startswith("cannot reach the carrier of the crawl: the line is cut; nothing is lost")
    assert calls.said[1] == "the carrier of the crawl answers again, after 19 s"


def test_a_call_that_failed_once_is_not_worth_a_line() -> None:
    calls = Calls()

    async def test() -> None:
        for cut in (True, False, True, False):
            calls.now += 1.0
            calls.line.is_cut = cut
            if cut:
                with pytest.raises(CarrierError):
                    await calls.ask()
            else:
                await calls.ask()

    asyncio.run(test())
    assert calls.said == []


def test_a_full_carrier_is_one_line_however_often_it_answers_in_between() -> None:
    calls = Calls()

    async def put() -> None:
        await calls.reach.call(calls.reach.carrier.put("p0", {"a": b"b"}))

    async def full() -> None:
        raise CarrierFullError("no room")

    async def test() -> None:
        for turn in range(20):
            calls.now += 1.0
            with pytest.raises(CarrierFullError):
                await calls.reach.call(full())
            await calls.ask()
            if turn == 10:
                calls.now += 5.0
                await put()  # it has room for a moment
        assert len(calls.said) == 1, calls.said
        for _ in range(20):
            calls.now += 1.0
            await put()

    asyncio.run(test())
    assert len(calls.said) == 2, calls.said
    assert "no room" in calls.said[0]
    assert "is full" in calls.said[0]
    assert "24 s" in calls.said[1]


def test_a_call_without_an_answer_fails_after_a_while() -> None:
    calls = Calls()

    async def test() -> float:
        with pytest.raises(CarrierError, match="no answer"):
            await calls.reach.call(asyncio.Event().wait())
        return asyncio.get_running_loop().time()

    assert run_virtually(test()) == pytest.approx(4.0)
