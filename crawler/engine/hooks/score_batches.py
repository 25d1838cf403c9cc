"""Links of many pages in one call: a model scores a thousand links in little more time than ten.

While a call is under way, the links of further pages wait; the next call gets all that wait, up to ``MOST``. So a batch
is as large as the function is slow, and no page waits for a batch to fill. As many pages wait as the run has in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from crawler.engine.link_judge import Link

MOST = 2_048  # links of several pages in one call; those of one piece of a page are not parted

Score = Callable[[Sequence[Link]], Awaitable[Sequence[float]]]


class ScoreBatches:
    """Calls ``score`` with links, one batch at a time. What it raises, each page of the batch raises."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._waiting: deque[tuple[Sequence[Link], asyncio.Future[Sequence[float]]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def scores(self, links: Sequence[Link]) -> Sequence[float]:
        """Return a score for each of the links. Raises what scoring its batch raises."""
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
                except Exception as error:  # the pages wait: each of them raises it  # noqa: BLE001
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
        """The parts of the next batch. Nobody waits any more for those whose visits were given up."""
        batch: list[tuple[Sequence[Link], asyncio.Future[Sequence[float]]]] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0][0]) <= MOST):
            links, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((links, answer))
                size += len(links)
        return batch
