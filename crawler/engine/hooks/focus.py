"""The user functions that focus a crawl. See ``LinkJudge``."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from crawler.engine.focusing import NEUTRAL
from crawler.engine.handed_page import HandedPage
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.asking import Asked
from crawler.engine.hooks.hook_failures import Hook
from crawler.engine.hooks.page_view import Page, facts_of
from crawler.engine.link_judge import Link

MOST = 2_048  # maximum number of links in a call for several parts of pages; a larger part gets a call of its own

Score = Callable[[Sequence[Link]], Awaitable[Sequence[float]]]


class ScoreBatches:
    """Scores links of many pages in one call: a model scores a thousand links in little more time than ten.

    While a call is running, the links of further pages wait; the next call gets all that wait, up to ``MOST``. So
    batches grow with the function's latency, and no page waits for a batch to fill. Only the links of pages in flight
    wait. If a call of ``score`` raises an exception, each page of the batch gets that exception.
    """

    def __init__(self, score: Score) -> None:
        self._score = score
        self._waiting: deque[tuple[Sequence[Link], asyncio.Future[Sequence[float]]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def scores(self, links: Sequence[Link]) -> Sequence[float]:
        """Return a score for each of the links. Raises any exception that the call of ``score`` for their batch
        raises."""
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


# The arguments of each function.
ASKED: dict[str, tuple[str, ...]] = {"filter_link": ("link",), "score_links": ("links",), "score_page": ("page",)}
_ROUNDING = 1e-6  # tolerance for scores below 0 or above 1


class Focus:
    """The functions of one run."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        """``hooks``: the functions by setting, at least one of those in ``ASKED``."""
        filters, scores, rates = (hooks.get(setting) for setting in ASKED)
        self._filter = None if filters is None else Asked(filters, wish)
        self._score = None if scores is None else Asked(scores, score_list)
        self._rate = None if rates is None else Asked(rates, score)
        self._batches = ScoreBatches(self._scored)

    @property
    def filters(self) -> bool:
        """See ``LinkJudge``."""
        return self._filter is not None

    @property
    def scores(self) -> bool:
        """See ``LinkJudge``."""
        return self._score is not None

    @property
    def rates(self) -> bool:
        """See ``LinkJudge``."""
        return self._rate is not None

    async def wanted(self, links: Sequence[Link]) -> Sequence[bool]:
        """See ``LinkJudge``. A link for which the function fails is followed, because it may lead to relevant pages."""
        assert self._filter is not None
        wishes = await self._filter.ask_each([(link,) for link in links], [link.url for link in links])
        return [wish is None or wish for wish in wishes]

    async def score_links(self, links: Sequence[Link]) -> Sequence[float]:
        """See ``LinkJudge``."""
        return await self._batches.scores(links)

    async def score_page(self, page: HandedPage) -> float | None:
        """See ``LinkJudge``."""
        assert self._rate is not None
        return await self._rate.ask((Page(facts_of(page), _follows_none),), page.record.entry.href)

    def close(self) -> None:
        """Close the functions when the run is over."""
        for asked in (self._filter, self._score, self._rate):
            if asked is not None:
                asked.close()

    async def _scored(self, links: Sequence[Link]) -> Sequence[float]:
        """Return a score for each link of a batch: the neutral score if the function fails."""
        assert self._score is not None
        found = await self._score.ask((list(links),), links[0].page)
        if found is not None and len(found) != len(links):
            fault = CallFailed(f"it returned {len(found)} scores for {len(links)} links")
            self._score.failed(links[0].page, fault)
            found = None
        return [NEUTRAL] * len(links) if found is None else found


def score_list(returned: Any) -> list[float]:
    """Return scores from 0 to 1. Raises CallFailed, and any exception raised while the scores are read."""
    if not isinstance(returned, Iterable) and not hasattr(returned, "__getitem__"):
        raise CallFailed(f"it returned {_kind(returned)} instead of a list of scores")
    return [score(each) for each in returned]


def wish(returned: Any) -> bool:
    """Return whether a link is followed. Raises CallFailed for None: the function probably lacks a return statement."""
    if returned is None:
        raise CallFailed("it returned None instead of True or False")
    try:
        return bool(returned)
    except Exception as error:  # the user's object may raise any exception
        raise CallFailed(f"it returned {_kind(returned)}, which is neither true nor false") from error


def score(returned: Any) -> float:
    """Return a score from 0 to 1. Raises CallFailed, and any exception raised while the value is read."""
    try:
        found = float(returned)
    except (TypeError, ValueError, OverflowError):
        raise CallFailed(f"it returned {_kind(returned)} instead of a number from 0 to 1") from None
    if not -_ROUNDING <= found <= 1.0 + _ROUNDING:  # also true for NaN
        raise CallFailed(f"it returned {found:g} instead of a number from 0 to 1")
    return min(1.0, max(0.0, found))


def _kind(returned: object) -> str:
    return "None" if returned is None else type(returned).__name__


def _follows_none(_: str) -> bool:
    raise ValueError("a function that scores pages cannot follow links")
