"""Scores links of many pages in one call: a model scores a thousand links in little more time than ten.

While a call is running, the links of further pages wait; the next call gets all that wait, up to ``MOST``. So batches
grow with the function's latency, and no page waits for a batch to fill. At most the pages in flight wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from crawler.engine.link_judge import Link

MOST = 2_048  # links of several pages in one call; the links of one part of a page are not split

Score = Callable[[Sequence[Link]], Awaitable[Sequence[float]]]


class ScoreBatches:
    """Calls ``score`` with links, one batch at a time. If the call raises, each page of the batch raises the same."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._waiting: deque[tuple[Sequence[Link], asyncio.Future[Sequence[float]]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def scores(self, links: Sequence[Link]) -> Sequence[float]:
        """Return a score for each of the links. Raises any exception of scoring its batch."""
        answer: asyncio.Future[Sequence[float]] = asyncio.get_running_loop().create_future()
        self._waiting.append((links, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        try:
            while batch := self._next():
                links = [link for part, _ in batch for link in part]
                try:
                    scores = await self._score(links)
                except Exception as error:  # each waiting page raises it  # noqa: BLE001
                    for _, answer in batch:
                        if not answer.done():
                            answer.set_exception(error)
                    continue
                at = 0
                for part, answer in batch:
                    if not answer.done():
                        answer.set_result(scores[at : at + len(part)])
                    at += len(part)
        finally:
            self._task = None

    def _next(self) -> list[tuple[Sequence[Link], asyncio.Future[Sequence[float]]]]:
        """Return the parts of the next batch, without those whose visits were given up."""
        batch: list[tuple[Sequence[Link], asyncio.Future[Sequence[float]]]] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0][0]) <= MOST):
            links, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((links, answer))
                size += len(links)
        return batch
