"""Whatever a function of the user returns, or raises while that is read, is one failure of one call: nothing waits for
it, nothing ends, and the next call has its answer."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crawler.base.settings import HookSettings
from crawler.engine.hooks.answers import Answered, CallFailed
from crawler.engine.hooks.asking import Asked
from crawler.engine.hooks.calls import PageCalls
from crawler.engine.hooks.focus import ASKED, Focus, score, score_list, wish
from crawler.engine.hooks.hook import Hook
from crawler.engine.hooks.loop_calls import PageLoop
from crawler.engine.hooks.named_code import load_code
from crawler.engine.hooks.page_child import is_url
from crawler.engine.hooks.page_view import PageFacts
from crawler.engine.hooks.process_calls import PageProcesses
from crawler.engine.hooks.requests import headers_of, verdict
from crawler.engine.hooks.thread_calls import PageThreads
from crawler.engine.link_judge import Link

PATIENCE = 90.0
follows = partial(is_url, "http://h.test/")

MODULE = '''
import asyncio
from collections.abc import Mapping

class Unsayable(Exception):
    def __str__(self):
        raise RuntimeError("not even that")

class Odd(Mapping):
    """Raises whenever it is read."""

    def __init__(self, error): self.error = error
    def fails(self, *_): raise self.error
    __getitem__ = __iter__ = __len__ = __float__ = __bool__ = __contains__ = keys = items = fails

class OddType:
    @property
    def __class__(self): raise RuntimeError("no type")
    def __bool__(self): raise RuntimeError("no truth")

def generator():
    yield 0.5
    raise RuntimeError("half of it")

def deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return {"x": found}

READ = {
    "runtime": lambda: Odd(RuntimeError("a tensor of a wrong shape")),
    "leave": lambda: Odd(SystemExit(3)),
    "interrupt": lambda: Odd(KeyboardInterrupt()),
    "cancel": lambda: Odd(asyncio.CancelledError()),
    "exit": lambda: Odd(GeneratorExit()),
    "stop": lambda: Odd(StopIteration()),
    "unsayable": lambda: Odd(Unsayable()),
    "surrogate": lambda: Odd(ValueError("\\ud800")),
    "syntax": lambda: Odd(SyntaxError("odd", (3, None, None, None))),
    "type": OddType,
    "generator": generator,
}
OF_PAGES = {
    "lone surrogate": lambda: {"x": "\\ud800"},
    "lone key": lambda: {"\\ud800": 1},
    "digits": lambda: {"x": 10**5000},
    "deep": lambda: deep(100_000),
    "deeper than a record can be written": lambda: deep(800),
    "keys": lambda: {(1, 2): 3},
}

def does(page):
    what = page.url.partition(".test/")[2]
    match what:
        case "fine": return {"a": 1}
        case "number": page.data = 3
        case "nothing": page.data = None
        case "list": page.data = [3]
        case "self": page.data["x"] = page.data
    return {**READ, **OF_PAGES}[what]()

async def later(page):
    return does(page)

def asked(about, *_):
    return about() if callable(about) else about
'''
REBINDS = ("number", "nothing", "list")
READ = [
    "runtime",
    "leave",
    "interrupt",
    "cancel",
    "exit",
    "stop",
    "unsayable",
    "surrogate",
    "syntax",
    "type",
    "generator",
]
OF_PAGES = ("lone surrogate", "lone key", "digits", "deep", "deeper than a record can be written", "keys", "self")
PLACES = {"thread": (PageThreads, "does"), "loop": (PageLoop, "later"), "process": (PageProcesses, "does")}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    name = f"odd_answers_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return __import__(name)


def facts(what: str) -> PageFacts:
    return PageFacts("0f-1", f"http://h.test/{what}", 200, (), b"", None, "text/html", 0, None, (), b"{}\n")


@pytest.mark.parametrize("place", PLACES)
async def test_of_a_page(module: ModuleType, place: str) -> None:
    makes, name = PLACES[place]
    calls: PageCalls[Answered] = makes(load_code(f"{module.__name__}:{name}", ["page"]))  # type: ignore[operator]

    async def call(what: str) -> Answered:
        return await asyncio.wait_for(calls.begin(facts(what), follows).answer, PATIENCE)

    try:
        for what in (*READ, *OF_PAGES, *REBINDS):
            with pytest.raises(CallFailed) as failure:
                await call(what)
            text = str(failure.value)
            assert "\n" not in text
            text.encode()
            assert "its process ended" not in text
            if what in REBINDS:
                assert "AttributeError" in text, "one rule for all values"
            if what == "unsayable" and place != "process":
                assert "Unsayable: its text raises RuntimeError" in text
            assert await call("fine") == Answered({"a": 1})
    finally:
        calls.close()


LINK = Link("http://h.test/1", "http://h.test/")
READS = {
    "filter_link": wish,
    "score_links": score_list,
    "score_page": score,
    "request_headers": headers_of,
    "is_changed": verdict,
}
FINE: dict[str, Any] = {"filter_link": False, "score_links": [0.5], "score_page": 1, "request_headers": {}}


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
@pytest.mark.parametrize("setting", READS)
async def test_of_the_other_functions(module: ModuleType, setting: str, is_async: bool) -> None:
    async def later(about: Any) -> Any:
        return module.asked(about)

    hook = Hook(
        setting, load_code(later if is_async else module.asked, ["about"]), HookSettings(on_page_timeout=PATIENCE)
    )
    asked: Asked[Any] = Asked(hook, READS[setting])  # type: ignore[arg-type]
    fine = FINE.get(setting, True)
    try:
        whats = [what for what in READ if (setting, what) != ("filter_link", "generator")]  # it is true
        for number, what in enumerate(whats, start=1):
            about = module.READ[what]
            answers = asked.ask_each([lambda: fine, about], [LINK.url, f"{LINK.url}/{what}"])
            found = await asyncio.wait_for(answers, PATIENCE)
            assert found[-1] is None
            assert hook.figures.failed == number, "one failure of one call"
            assert await asked.ask(lambda: fine, LINK.url) == fine, "and the next has its answer"
    finally:
        asked.close()


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
async def test_pages_whose_scores_cannot_be_read_do_not_wait(module: ModuleType, is_async: bool) -> None:
    def scores(links: object) -> Any:
        return module.generator()

    async def later(links: object) -> Any:
        return module.generator()

    hook = Hook(
        "score_links", load_code(later if is_async else scores, ASKED["score_links"]), HookSettings(on_page_timeout=0.0)
    )
    focus = Focus({"score_links": hook})  # nothing is given up
    found = await asyncio.wait_for(asyncio.gather(*(focus.score_links([LINK] * 2) for _ in range(5))), PATIENCE)
    focus.close()
    assert found == [[0.5, 0.5]] * 5
    assert hook.figures.failed == hook.figures.calls
