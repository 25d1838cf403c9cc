"""The functions that focus a crawl: what counts as an answer, what becomes of failures, and how links come together."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings import HookSettings
from crawler.engine.focusing import NEUTRAL
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.asking import Asked
from crawler.engine.hooks.calls import LOST_MOST
from crawler.engine.hooks.focus import ASKED, Focus, score, score_list, wish
from crawler.engine.hooks.hook import Hook
from crawler.engine.hooks.named_code import load_code
from crawler.engine.hooks.score_batches import MOST, ScoreBatches
from crawler.engine.link_judge import Link
from crawler.engine.page_handler import Withdrawn
from crawler.engine.user_code import HookFigures
from crawler.job.records import HOOKS_ASKED, Counters, count_failed, decode_counters, encode_counters
from crawler.service.progress.summary import summary
from tests.job.metrics.samples import statistics
from tests.virtual import run_virtually


def some(number: int, page: str = "p") -> list[Link]:
    return [Link(f"http://h.test/{page}/{each}", f"http://h.test/{page}") for each in range(number)]


MINUTE = HookSettings()


def focus(settings: HookSettings = MINUTE, **functions: Callable[..., Any]) -> tuple[Focus, Any]:
    hooks = {name: Hook(name, load_code(function, ASKED[name]), settings) for name, function in functions.items()}
    made = Focus(hooks)
    return made, {name: hook.figures for name, hook in hooks.items()}


# -- answers ---------------------------------------------------------------------------------------------------


@given(st.floats(0.0, 1.0))
def test_a_score_is_a_number_from_0_to_1(number: float) -> None:
    assert score(number) == number


@pytest.mark.parametrize(("returned", "is_score"), [(True, 1.0), (0, 0.0), (1 + 1e-9, 1.0), (-1e-9, 0.0), ("0.5", 0.5)])
def test_what_is_as_good_as_a_score(returned: object, is_score: float) -> None:
    assert score(returned) == is_score


@pytest.mark.parametrize("returned", [math.nan, math.inf, -math.inf, 1.1, -0.1, 37, None, "much", [0.5], object()])
def test_what_is_no_score(returned: object) -> None:
    with pytest.raises(CallFailed, match="not a number from 0 to 1"):
        score(returned)
    with pytest.raises(CallFailed, match="not a number from 0 to 1"):
        score_list([0.5, returned])


def test_what_is_no_list_of_scores() -> None:
    assert score_list(each / 2 for each in range(3)) == [0.0, 0.5, 1.0]
    for returned in (None, 0.5):
        with pytest.raises(CallFailed, match="not a list of scores"):
            score_list(returned)


def test_what_says_whether_a_link_is_followed() -> None:
    assert (wish(True), wish(0), wish("yes"), wish([])) == (True, False, True, False)
    with pytest.raises(CallFailed, match="returned None"):
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


def test_one_link_on_which_a_filter_fails_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    def wanted(link: Link) -> bool:
        return {"0": False, "2": True}[link.url[-1]]

    async def later(link: Link) -> bool:
        await asyncio.sleep(0)
        return wanted(link)

    async def asked(function: Callable[..., Any]) -> tuple[Sequence[bool], int]:
        made, figures = focus(filter_link=function)
        found = await made.wanted(some(3))
        made.close()
        return found, figures["filter_link"].failed

    for function in (wanted, later):
        assert asyncio.run(asked(function)) == ([False, True, True], 1)
    assert all("filter_link failed on http://h.test/p/1: " in record.getMessage() for record in caplog.records)
    assert all(record.getMessage().endswith("KeyError: '1'") for record in caplog.records)


def test_a_failure_may_stop_the_crawl() -> None:
    def fails(links: object) -> list[float]:
        raise KeyError("model")

    async def asked() -> list[str]:
        hook = Hook("score_links", load_code(fails, ASKED["score_links"]), HookSettings(on_error="stop"))
        made = Focus({"score_links": hook})
        stops: list[str] = []
        hook.stop = lambda: stops.append("stop")
        found = await asyncio.gather(*(made.score_links(some(2)) for _ in range(3)), return_exceptions=True)
        made.close()
        assert [type(each) for each in found] == [Withdrawn] * 3
        return stops

    assert asyncio.run(asked()) == ["stop"]


@pytest.mark.parametrize("setting", ASKED)
def test_where_so_many_calls_do_not_return_that_no_more_are_begun_the_crawl_stops(
    setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()

    def hangs(about: object) -> None:
        let_go.wait()

    async def asked() -> tuple[HookFigures, list[str]]:
        hook = Hook(setting, load_code(hangs, ASKED[setting]), HookSettings())
        made: Asked[None] = Asked(hook, lambda _: None)
        stops: list[str] = []
        hook.stop = lambda: stops.append("stop")
        for _ in range(LOST_MOST):
            assert await made.ask("", "http://h.test/") is None
        assert hook.figures.stopped is None
        for _ in range(2):
            with pytest.raises(Withdrawn):
                await made.ask("", "http://h.test/")
        made.close()
        return hook.figures, stops

    try:
        figures, stops = run_virtually(asked())
    finally:
        let_go.set()
    assert stops == ["stop"]
    assert figures.failed == LOST_MOST + 2
    assert "64 calls of" in (figures.stopped or "")
    assert "do not return: no more are begun (hooks.on_page_timeout)" in (figures.stopped or "")
    assert len([line for line in caplog.messages if "stopping because 64 calls of" in line]) == 1


def test_failed_calls_and_the_reason_of_a_stop_are_in_the_summary() -> None:
    counters = Counters()
    for hook in HOOKS_ASKED:
        count_failed(counters, hook)
    count_failed(counters, "score_page")
    assert decode_counters(encode_counters(counters)) == counters
    failed = {hook: getattr(counters, f"{hook}_failed") for hook in HOOKS_ASKED}
    assert failed == dict.fromkeys(HOOKS_ASKED, 1) | {"score_page": 2}
    stopped = HookFigures("hang:page", stopped="64 calls of hang:page do not return").as_json()
    said = summary({**statistics(), "state": "stopped", "calls_code_failed": failed, "hooks": {"filter_link": stopped}})
    assert "your code failed in calls: filter_link 1, score_links 1, score_page 2, request_headers 1" in said
    assert said.splitlines()[0].endswith(": 64 calls of hang:page do not return")


def test_the_other_links_of_a_page_are_asked_about_when_one_call_does_not_return() -> None:
    let_go = threading.Event()

    def wanted(link: Link) -> bool:
        if link.url.endswith("1"):
            let_go.wait()
        return False

    async def asked() -> list[bool]:
        made, _ = focus(HookSettings(on_page_timeout=0.05), filter_link=wanted)
        for _ in range(1_000):  # a busy machine may not get to the other links in time
            found = list(await made.wanted(some(4)))
            let_go.set()
            if found == [False, True, False, False]:
                break
            let_go.clear()
        made.close()
        return found

    assert asyncio.run(asked()) == [False, True, False, False]


def test_a_page_waits_for_three_calls_that_do_not_return() -> None:
    let_go = threading.Event()

    async def asked() -> tuple[list[bool], int, float]:
        made, figures = focus(filter_link=lambda link: let_go.wait())
        found = list(await made.wanted(some(100)))
        made.close()
        return found, figures["filter_link"].failed, asyncio.get_running_loop().time()

    try:
        found, failed, seconds = run_virtually(asked())
    finally:
        let_go.set()
    assert (found, failed) == ([True] * 100, 100)
    assert seconds == pytest.approx(180.0)


def test_what_is_not_async_runs_in_a_thread() -> None:
    def where(links: Sequence[Link]) -> list[float]:
        return [float(threading.current_thread() is not threading.main_thread())] * len(links)

    async def asked() -> Sequence[float]:
        made, _ = focus(score_links=where)
        found = await made.score_links(some(2))
        made.close()
        return found

    assert asyncio.run(asked()) == [1.0, 1.0]


def test_a_function_that_hangs_is_named_and_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def hangs(links: object) -> list[float]:
        await asyncio.Event().wait()
        return []

    async def asked() -> tuple[Sequence[float], float]:
        made, figures = focus(score_links=hangs)
        found = await made.score_links(some(2))
        assert (figures["score_links"].failed, figures["score_links"].hanging) == (1, 0)
        return found, asyncio.get_running_loop().time()

    assert run_virtually(asked()) == ([NEUTRAL] * 2, 60.0)
    said = [record.getMessage() for record in caplog.records]
    assert "has not returned for 10 s on http://h.test/p" in said[0]
    assert "has not returned after 60 s" in said[1]


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


@given(st.lists(st.integers(1, MOST), min_size=1, max_size=12))
def test_a_batch_is_bounded_and_every_page_has_its_own_scores(sizes: list[int]) -> None:
    async def asked() -> list[int]:
        model = Model()
        batches = ScoreBatches(model.score)
        found = await asyncio.gather(*(batches.scores(some(size)) for size in sizes))
        assert [list(each) for each in found] == [[at / 10_000 for at in range(size)] for size in sizes]
        return model.batches

    batches = run_virtually(asked())
    assert sum(batches) == sum(sizes)
    assert max(batches) <= MOST
    assert all(one + other > MOST for one, other in pairwise(batches)), "no smaller than it must be"


def test_nobody_scores_for_a_visit_that_was_given_up() -> None:
    async def asked() -> list[int]:
        model = Model()
        batches = ScoreBatches(model.score)
        first = asyncio.ensure_future(batches.scores(some(1)))
        await asyncio.sleep(0.5)
        given_up, waits = (asyncio.ensure_future(batches.scores(some(size))) for size in (5, 2))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait((first, waits))
        assert await batches.scores(some(3)), "and the next is scored"
        return model.batches

    assert run_virtually(asked()) == [1, 2, 3]
