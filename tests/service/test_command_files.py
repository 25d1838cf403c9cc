"""Commands left in a job's inbox for the crawl that runs in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.job.inbox import Inbox
from crawler.service.commands import WAIT, Command, Refusal, Refused, give_command, obey
from tests.virtual import run_virtually

NOT_NOW = Refused(Refusal.NOT_NOW, "the disk is full")


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path, RealDisk())


class Crawl:
    def __init__(self, refused: Refused | None = None) -> None:
        self.refused = refused
        self.told: list[Command] = []

    async def perform(self, command: Command) -> Refused | None:
        self.told.append(command)
        return self.refused


@asynccontextmanager
async def obeying(inbox: Inbox, crawl: Crawl) -> AsyncIterator[None]:
    task = asyncio.create_task(obey(inbox, crawl.perform))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


async def test_a_command_is_carried_out_and_leaves_nothing(inbox: Inbox) -> None:
    crawl = Crawl()
    async with obeying(inbox, crawl):
        assert await give_command(inbox, os.getpid(), Command("pause")) is None
        assert await give_command(inbox, os.getpid(), Command("block-host", "h.test:80")) is None
    assert crawl.told == [Command("pause"), Command("block-host", "h.test:80")]
    assert list(inbox.path.iterdir()) == []


async def test_why_not_is_told(inbox: Inbox) -> None:
    async with obeying(inbox, Crawl(NOT_NOW)):
        assert await give_command(inbox, os.getpid(), Command("checkpoint")) == NOT_NOW


async def test_what_makes_no_sense_is_answered_so(inbox: Inbox) -> None:
    crawl = Crawl()
    async with obeying(inbox, crawl):
        refused = await give_command(inbox, os.getpid(), Command("dance"))
    assert refused is not None
    assert (refused.why, crawl.told) == (Refusal.SENSELESS, [])


def test_a_command_that_nobody_answers_is_said_so_and_taken_back(inbox: Inbox) -> None:
    async def waited() -> float:
        refused = await give_command(inbox, os.getpid(), Command("stop"))
        assert refused is not None
        assert refused.why is Refusal.NO_ANSWER
        return asyncio.get_running_loop().time()

    assert run_virtually(waited()) == pytest.approx(WAIT, abs=1)
    assert list(inbox.path.iterdir()) == []
