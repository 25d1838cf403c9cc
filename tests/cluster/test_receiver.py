"""The receiver of a process: it may end at any moment."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import START, Entry
from crawler.cluster.reach import Reach
from crawler.cluster.receiver import Receiving


async def test_a_receiver_that_ends_as_it_begins_to_trim_leaves_no_call_unmade(
    recwarn: pytest.WarningsRecorder,
) -> None:
    ending: list[asyncio.Task[None]] = []

    class EndsAfterReading(MemoryCarrier):
        async def read(self, *_: Any) -> dict[str, list[Entry]]:
            asyncio.get_running_loop().call_soon(ending[0].cancel)
            return {}

    partition: Any = SimpleNamespace(name="00", is_closing=False, read_to=START, trimmable=lambda: "1")
    unused: Any = None
    reach = Reach(EndsAfterReading(), lambda: 0.0)
    receiving = Receiving(reach, unused, {0: partition}, unused, lambda: 0.0, unused)
    ending.append(asyncio.create_task(receiving.keep()))
    await asyncio.wait(ending)
    gc.collect()
    assert [str(each.message) for each in recwarn] == []
