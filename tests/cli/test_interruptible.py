"""A signal that comes while an event loop is made."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

import pytest

from crawler.cli.interruptible import run_interruptible


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT comes before the loop is made."""
    make = asyncio.new_event_loop

    def late() -> asyncio.AbstractEventLoop:
        os.kill(os.getpid(), signal.SIGINT)
        return make()

    monkeypatch.setattr("asyncio.events.new_event_loop", late)


@pytest.mark.usefixtures("interrupted")
def test_an_interruption_while_a_loop_is_made_comes_when_it_is_there() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)
    gc.collect()  # a loop or a coroutine that was left behind would say so
    assert not begun
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_result_and_an_error_are_those_of_the_coroutine() -> None:
    async def work(number: int) -> float:
        return 1 / number

    assert run_interruptible(lambda: work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        run_interruptible(lambda: work(0))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
