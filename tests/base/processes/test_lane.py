"""Requests wait while processes do not start, and fail if none does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from crawler.base.processes import lane
from crawler.base.processes.forker import Bytes, Forker
from crawler.base.processes.frames import Report
from crawler.base.processes.lane import Failed, Lane, Request, Why
from tests.virtual import run_virtually


class Child:
    """Starts when that was tried often enough, and answers each request."""

    vain = 0

    def __init__(
        self, forker: Forker, memory: int, take: Callable[[Report, bool, bytes], None], ended: Callable[[int], None]
    ) -> None:
        self.take = take
        self.ended = ended

    def start(self) -> None:
        Child.vain -= 1
        loop = asyncio.get_running_loop()
        if Child.vain >= 0:
            if Child.vain % 2:
                raise OSError("no room")
            loop.call_soon(self.ended, -9)
        else:
            loop.call_soon(self.take, Report.READY, False, b"")

    def send(self, seconds: float, stated: bytes, body: Bytes) -> None:
        if Child.vain < 0:
            asyncio.get_running_loop().call_later(0.1, self.take, Report.DONE, False, b"an answer")

    def kill(self) -> None:
        pass


@pytest.mark.parametrize(("vain", "answered"), [(1, True), (5, True), (99, False)])
def test_requests_wait_for_a_process_that_starts_late(
    monkeypatch: pytest.MonkeyPatch, vain: int, answered: bool
) -> None:
    monkeypatch.setattr(lane, "Child", Child)
    monkeypatch.setattr(Child, "vain", vain)

    async def ask() -> list[bytes | Failed]:
        waits = Lane(cast("Forker", None), 1)
        asked = [waits.ask(Request("h", b"", b""), lambda parts: parts[0]) for _ in range(3)]
        return await asyncio.wait_for(asyncio.gather(*asked), 40.0)

    found = run_virtually(ask())
    if answered:
        assert found == [b"an answer"] * 3
    else:
        assert all(isinstance(each, Failed) and each.why is Why.NOT_STARTED for each in found)
