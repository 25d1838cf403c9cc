"""The first process of a crawl keeps its workers going: with processes that only speak as workers do."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.cluster.worker_channel import Instructions
from crawler.cluster.worker_supervisor import MOST_DEATHS, MOST_ERRORS, Outcome, Plan, Supervisor
from crawler.engine.lifecycle import Stop
from tests.program import PATIENCE, wait_until

STAND_IN = Path(__file__).with_name("stand_in_worker.py")


def planned(*behaviour: str, processes: int = 2) -> Plan:
    def instructions(number: int) -> Instructions:
        return Instructions({}, [], [str(number)], [], processes)

    async def reread(number: int) -> Instructions:
        return replace(instructions(number), urls=[f"{number} with other settings"])

    words = (sys.executable, "-I", str(STAND_IN), *behaviour)
    return Plan(words, dict(os.environ), processes, instructions, reread, lambda: 0)


def supervised(*behaviour: str, processes: int = 2) -> tuple[Outcome, list[str]]:
    said = list[str]()

    async def run() -> Outcome:
        return await asyncio.wait_for(Supervisor(planned(*behaviour, processes=processes), said.append).run(), PATIENCE)

    return asyncio.run(run()), said


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.cluster.worker_supervisor.MOST_PAUSE", 0.01)


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    outcome, said = supervised("dies-twice", str(tmp_path / "starts"), processes=1)
    assert outcome == Outcome(Stop.FINISHED, 1, None, None)
    assert (tmp_path / "starts").stat().st_size == 3
    assert [("SIGKILL" in line) for line in said] == [True, True]


def test_an_error_that_every_worker_meets_ends_the_crawl_and_is_told_once() -> None:
    outcome, said = supervised("fails")
    assert outcome.failed is not None
    assert (outcome.failed.text, outcome.failed.final) == ("KeyError: 'x'", False)
    assert len(said) == 1 < MOST_ERRORS


def test_workers_that_die_again_and_again_end_the_crawl() -> None:
    outcome, said = supervised("dies", processes=1)
    assert outcome.failed is not None
    assert "SIGKILL" in outcome.failed.text
    assert len(said) == MOST_DEATHS - 1


def test_a_refusal_ends_the_crawl_at_once() -> None:
    outcome, said = supervised("is-refused")
    assert outcome.failed is not None
    assert (outcome.failed.text, outcome.failed.final, said) == ("another version", True, [])


@pytest.mark.parametrize("reason", [Stop.INTERRUPTED, Stop.MAX_TIME])
def test_all_stop_when_they_are_told(reason: Stop) -> None:
    said, heard = list[str](), asyncio.Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            heard.set()

    async def run() -> Outcome:
        supervisor = Supervisor(planned("waits", processes=3), say)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(PATIENCE):
            await heard.wait()
            assert sorted(supervisor.pids) == sorted(int(line.split()[1]) for line in said)
            supervisor.stop(reason)
            return await running

    assert asyncio.run(run()).reason is reason


def test_no_worker_outlives_a_supervisor_that_is_given_up() -> None:
    said, heard = list[str](), asyncio.Event()

    def say(line: str) -> None:
        said.append(line)
        heard.set()

    async def run() -> None:
        supervisor = Supervisor(planned("waits", processes=1), say)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(PATIENCE):
            await heard.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    for line in said:
        pid = int(line.split()[1])
        wait_until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), "the worker ends")  # type: ignore[misc]
