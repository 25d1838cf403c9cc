"""Waiting for a call of a function of the user, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from crawler.base.settings import HookSettings
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.call_watch import START, Steps, outcome_of
from crawler.engine.hooks.hook import Hook
from crawler.engine.hooks.named_code import load_code
from tests.virtual import run_virtually

NEVER = 1e6


class Call:
    """Its process begins after so many seconds, and answers after further ones."""

    def __init__(self, begins: float, answers: float) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] | None = loop.create_future()
        self.answer: asyncio.Future[int] = loop.create_future()
        self.abandoned_at = 0.0
        loop.call_later(begins, self.begin)
        loop.call_later(begins + answers, self.end)

    def begin(self) -> None:
        if self.begun is not None:
            self.begun.set_result(None)

    def end(self) -> None:
        if not self.answer.done():
            self.answer.set_result(3)

    def place(self) -> None:
        """It is in another process."""

    def abandon(self) -> None:
        self.abandoned_at = asyncio.get_running_loop().time()
        self.answer.cancel()


@pytest.mark.parametrize(
    ("begins", "answers", "outcome", "abandoned_at"),
    [
        (100.0, 50.0, 3, 0.0),
        (100.0, 61.0, "has not returned after 60 s", 160.0),
        (NEVER, 1.0, "has not begun after 600 s", START),
    ],
)
def test_the_time_of_a_call_begins_when_its_process_has(
    begins: float, answers: float, outcome: object, abandoned_at: float
) -> None:
    async def waited() -> tuple[object, float]:
        hook, call = Hook("on_page", load_code(lambda page: None, ["page"]), HookSettings()), Call(begins, answers)
        try:
            return await outcome_of(call, hook, Steps(["http://h.test/"])), call.abandoned_at
        except CallFailed as error:
            return str(error), call.abandoned_at

    found, at = run_virtually(waited())
    assert at == pytest.approx(abandoned_at)
    assert found == outcome or str(outcome) in str(found)


@pytest.mark.parametrize(
    ("begin_at", "outcome", "abandoned_at"),
    [((50.0, 100.0, 150.0), 3, 0.0), ((50.0, 100.0), "has not returned after 60 s", 160.0)],
)
def test_the_time_of_a_call_about_several_urls_is_that_of_each(
    begin_at: tuple[float, ...], outcome: object, abandoned_at: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def waited() -> tuple[object, float]:
        hook, call = Hook("filter_link", load_code(lambda link: None, ["link"]), HookSettings()), Call(0.0, 200.0)
        call.begun = None  # it runs
        steps = Steps([f"http://h.test/{number}" for number in range(4)])
        for number, at in enumerate(begin_at, start=1):
            asyncio.get_running_loop().call_later(at, steps.begin, number)
        try:
            found: object = await outcome_of(call, hook, steps)
        except CallFailed as error:
            found = str(error)
        assert hook.figures.hanging == 0
        assert steps.is_over is bool(abandoned_at)
        return found, call.abandoned_at

    found, at = run_virtually(waited())
    assert at == pytest.approx(abandoned_at)
    assert found == outcome or str(outcome) in str(found)
    named = [line for line in caplog.messages if "has not returned for 10 s" in line]
    assert [line[-1] for line in named] == [str(number) for number in range(len(begin_at) + 1)], "each is named"
