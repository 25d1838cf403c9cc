"""Words left in a job's directory for the crawl that runs in it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.service.command_files import ORDERS, WAIT, Refused, give_order, obey
from tests.virtual import run_virtually


class Crawl:
    def __init__(self, refused: Refused | None = None) -> None:
        self.refused = refused
        self.asked: list[Any] = []

    async def perform(self, asked: Any) -> Refused | None:
        self.asked.append((asked["do"], asked["host"]))
        return self.refused


@asynccontextmanager
async def obeying(directory: Path, crawl: Crawl) -> AsyncIterator[None]:
    task = asyncio.create_task(obey(directory, crawl.perform))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


async def test_an_order_is_done_and_leaves_nothing(tmp_path: Path) -> None:
    crawl = Crawl()
    async with obeying(tmp_path, crawl):
        assert await give_order(tmp_path, os.getpid(), "pause", None) is None
        assert await give_order(tmp_path, os.getpid(), "block-host", "h.test:80") is None
    assert crawl.asked == [("pause", None), ("block-host", "h.test:80")]
    assert list((tmp_path / ORDERS).iterdir()) == []


async def test_why_not_is_told(tmp_path: Path) -> None:
    async with obeying(tmp_path, Crawl((409, "the disk is full"))):
        assert await give_order(tmp_path, os.getpid(), "checkpoint", None) == (409, "the disk is full")


async def test_what_is_for_another_process_or_no_order_is_not_done(tmp_path: Path) -> None:
    crawl, path = Crawl(), tmp_path / ORDERS
    path.mkdir()
    (path / "1.order").write_text(json.dumps({"pid": os.getpid() + 1, "do": "stop", "host": None}))
    (path / "2.order").write_text("{")
    (path / "3.order").write_text("[]")
    (path / "4.order").write_bytes(b"\xff" * 20)
    (path / "5.done").write_text("{}")
    os.utime(path / "5.done", (0, 0))
    (path / "6.done").write_text("{}")
    async with obeying(tmp_path, crawl):
        assert await give_order(tmp_path, os.getpid(), "resume", None) is None
    assert crawl.asked == [("resume", None)]
    # An answer is kept for who may still wait.
    assert [left.name for left in path.iterdir()] == ["6.done"]


def test_where_nobody_answers_that_is_said_and_the_order_taken_back(tmp_path: Path) -> None:
    async def waited() -> float:
        assert await give_order(tmp_path, os.getpid(), "stop", None) == (504, "the crawl has not answered")
        return asyncio.get_running_loop().time()

    assert run_virtually(waited()) == pytest.approx(WAIT, abs=1)
    assert list((tmp_path / ORDERS).iterdir()) == []
