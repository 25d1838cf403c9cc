"""Runs coroutines in the background while a block runs, and blocking calls in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


@contextlib.asynccontextmanager
async def background(*coroutines: Coroutine[Any, Any, object]) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Run the coroutines until the block ends. Raises the exceptions of the coroutines."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        await end_all(tasks)


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until they have ended. Raises the exceptions of the tasks."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task


class OneThread:
    """A thread that runs one call at a time, in order."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the thread and return its result. Raises the exceptions of ``work``, and RuntimeError if the
        thread is closed."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Drop all queued calls, and wait for the running one."""
        self._pool.shutdown(cancel_futures=True)
