"""The functions that focus a crawl: what counts as an answer, what becomes of failures, and how links come together."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from crawler.base.settings.parts import HookSettings
from crawler.engine.focusing import NEUTRAL
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.focus import ASKED, Focus, ScoreBatches, score, score_list, wish
from crawler.engine.hooks.hook_failures import Hook
from crawler.engine.hooks.named_code import load_code
from crawler.engine.link_judge import Link
from tests.virtual import run_virtually


def some(number: int, page: str = "p") -> list[Link]:
    return [Link(f"http://h.test/{page}/{each}", f"http://h.test/{page}") for each in range(number)]


MINUTE = HookSettings()


def focus(settings: HookSettings = MINUTE, **functions: Callable[..., Any]) -> tuple[Focus, Any]:
    hooks = {name: Hook(name, load_code(function, ASKED[name]), settings) for name, function in functions.items()}
    made = Focus(hooks)
    return made, {name: hook.figures for name, hook in hooks.items()}


# -- answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returned", [math.nan, math.inf, -math.inf, 1.1, -0.1, 37, None, "much", [0.5], object()])
def test_what_is_no_score(returned: object) -> None:
    with pytest.raises(CallFailed):
        score(returned)
    with pytest.raises(CallFailed):
        score_list([0.5, returned])


def test_what_says_whether_a_link_is_followed() -> None:
    assert (wish(True), wish(0), wish("yes"), wish([])) == (True, False, True, False)
    with pytest.raises(CallFailed):
        wish(None)


# -- calls -----------------------------------------------------------------------------------------------------


def test_a_function_that_fails_is_counted_and_changes_nothing() -> None:
    def fails(links: object) -> list[float]:
        raise KeyError("model")

    def few(links: Sequence[Link]) -> list[float]:
        return [0.9] * (len(links) - 1)

    def odd(links: Sequence[Link]) -> list[float]:
        return [math.nan] * len(links)

    async def asked(function: Callable[..., Any]) -> tuple[Sequence[float], int]:
        made, figures = focus(score_links=function)
        found = await made.score_links(some(3))
        made.close()
        return found, figures["score_links"].failed

    for function in (fails, few, odd):
        assert asyncio.run(asked(function)) == ([NEUTRAL] * 3, 1)


# -- batches ---------------------------------------------------------------------------------------------------


class Model:
    """Takes a second for a batch."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def score(self, links: Sequence[Link]) -> Sequence[float]:
        self.batches.append(len(links))
        await asyncio.sleep(1.0)
        return [int(link.url.rpartition("/")[2]) / 10_000 for link in links]


def test_links_of_pages_that_wait_come_together() -> None:
    async def asked() -> tuple[list[int], float]:
        model = Model()
        batches = ScoreBatches(model.score)
        loop = asyncio.get_running_loop()

        async def page(number: int) -> None:
            links = some(number + 1)
            assert await batches.scores(links) == [each / 10_000 for each in range(number + 1)]

        async with asyncio.TaskGroup() as group:
            group.create_task(page(0))
            group.create_task(page(1))
            await asyncio.sleep(0.5)
            for number in range(2, 6):
                group.create_task(page(number))
        return model.batches, loop.time()

    assert run_virtually(asked()) == ([1 + 2, 3 + 4 + 5 + 6], 2.0)
