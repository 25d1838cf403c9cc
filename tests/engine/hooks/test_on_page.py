"""A function of the user on each page of a crawl, in virtual time: its failures, its hangs, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crawler.base.settings.parts import HookSettings
from crawler.engine.hooks.answers import Answered, CallFailed, NoMoreCallsError
from crawler.engine.hooks.call_watch import LONG
from crawler.engine.hooks.hook_failures import SHOWN, Hook
from crawler.engine.hooks.named_code import load_code
from crawler.engine.hooks.on_page import OnPage
from crawler.engine.hooks.page_view import PageFacts
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from tests.engine.test_page_delivery import GAP, crawl, site
from tests.jobs import rows

PLACE = "/home/me/shop.py:7"
NEVER = 1e6


def function(page: object) -> None:
    """What is called, in name."""


class Scripted:
    """Calls that take so many seconds, by path, and then fail if they are to."""

    def __init__(self, seconds: dict[str, float] | None = None, fails: Callable[[str], bool] = lambda _: False) -> None:
        self.seconds = seconds or {}
        self.fails = fails
        self.met: list[str] = []
        self.given_up: list[str] = []
        self.now = self.most = 0
        self.closed = False
        self.exhausted_at = 0  # the call, counted from 1, that is not begun because others hang

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> Call:
        self.met.append(page.id)
        if len(self.met) == self.exhausted_at:
            raise NoMoreCallsError("64 calls do not return")
        self.now += 1
        self.most = max(self.most, self.now)
        return Call(self, page)

    def close(self) -> None:
        self.closed = True


class Call:
    def __init__(self, calls: Scripted, page: PageFacts) -> None:
        self.calls = calls
        self.url = page.url
        self.begun: asyncio.Future[None] | None = None
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Answered] = loop.create_future()
        loop.call_later(calls.seconds.get(page.url.partition(".test")[2], 0.1), self.end)

    def place(self) -> str:
        return PLACE

    def abandon(self) -> None:
        self.calls.given_up.append(self.url)
        self.answer.cancel()

    def end(self) -> None:
        self.calls.now -= 1
        if self.answer.done():
            return
        if self.calls.fails(self.url):
            self.answer.set_exception(CallFailed(f"{PLACE}: KeyError: 'price'"))
        else:
            self.answer.set_result(Answered({"price": 3}))


def made(calls: Scripted, workers: int = 8, **settings: Any) -> tuple[OnPage, Hook]:
    hook = Hook("on_page", load_code(function, ["page"]), HookSettings(**settings))
    return OnPage(hook, calls, HookSettings(**settings), workers), hook


def test_a_failure_is_counted_shown_and_in_the_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls = Scripted(fails=lambda url: url.endswith(tuple("13579")))
    code, hook = made(calls)
    runs: list[Run] = []
    crawl(tmp_path / "job", site("h.test", 40), code, 8, runs.append)
    written = {row["url"]: row for row in rows(tmp_path / "job")}
    failed = [f"http://h.test/{number}" for number in range(1, 40, 2)]
    assert {url for url, row in written.items() if "data_error" in row} == set(failed)
    assert all(written[url]["data_error"] == f"{PLACE}: KeyError: 'price'" for url in failed)
    assert {url: row.get("data") for url, row in written.items() if url not in failed} == {
        url: {"price": 3} for url in written if url not in failed
    }
    assert (hook.figures.calls, hook.figures.failed, hook.figures.hanging) == (41, 20, 0)
    assert runs[0].job.counters.pages_code_failed == 20
    assert runs[0].stats()["pages_code_failed"] == 20
    shown = [record.getMessage() for record in caplog.records]
    assert len([line for line in shown if PLACE in line]) == SHOWN
    assert "http://h.test/" in shown[0]


def test_a_call_that_hangs_is_named_and_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls = Scripted({"/3": NEVER, "/4": LONG + 1.0})
    code, hook = made(calls)
    hanging: list[int] = []

    def begun(run: Run) -> None:
        asyncio.get_running_loop().call_later(45.0, lambda: hanging.append(hook.figures.hanging))

    asked = crawl(tmp_path / "job", site("h.test", 12), code, 8, begun)
    assert asked[-1][1] < 13 * (GAP + 0.2), "the host does not wait for it"
    assert calls.given_up == ["http://h.test/3"]
    assert hanging == [1]
    assert hook.figures.hanging == 0
    errors = {row["url"]: row["data_error"] for row in rows(tmp_path / "job") if "data_error" in row}
    assert list(errors) == ["http://h.test/3"]
    assert str(PLACE) in errors["http://h.test/3"]
    named = [record.getMessage() for record in caplog.records if "has not returned for" in record.getMessage()]
    assert len(named) == 2
    assert str(PLACE) in named[0]


def test_where_so_many_calls_hang_that_no_more_are_begun_the_crawl_stops(tmp_path: Path) -> None:
    calls, runs = Scripted(), list[Run]()
    calls.exhausted_at = 5
    code, hook = made(calls)

    def begun(run: Run) -> None:
        runs.append(run)
        hook.stop = partial(run.stop, Stop.CODE)

    crawl(tmp_path / "job", site("h.test", 30), code, 8, begun)
    assert runs[0].life.reason is Stop.CODE
    written = rows(tmp_path / "job")
    assert not [row for row in written if "data_error" in row], "no page is finished without the code"
    assert calls.met[4] not in {row["id"] for row in written}
    assert "hooks.on_page_timeout" in hook.figures.stopped
