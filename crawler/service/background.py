"""Coroutines in the background of a block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any


@contextlib.asynccontextmanager
async def background(*coroutines: Coroutine[Any, Any, object]) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Run the coroutines until the block ends. Raises their exceptions."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        await end_all(tasks)


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait for them. Raises their exceptions."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
