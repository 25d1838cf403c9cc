"""Calls of functions of the user, in threads, in an event loop and in processes; with no page of a crawl."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crawler.engine.hooks.answers import Answered, CallFailed, NoMoreCallsError
from crawler.engine.hooks.calls import LOST_MOST, PageCalls
from crawler.engine.hooks.loop_calls import Loops
from crawler.engine.hooks.named_code import load_code
from crawler.engine.hooks.on_page import OwnPages
from crawler.engine.hooks.page_child import is_url
from crawler.engine.hooks.page_view import Page, PageFacts
from crawler.engine.hooks.process_calls import PageProcesses
from crawler.engine.hooks.thread_calls import Threads
from tests.program import wait_until

BODY = "<title>grüße</title>".encode("latin-1")
PATIENCE = 90.0
HERE = __file__
follows = partial(is_url, "http://h.test/")

# A function for each thing that a page asks for.
MODULE = """
import asyncio, crawler, os, signal, sys, time

def does(page):
    match page.url.rpartition("/")[2]:
        case "data":
            page.data["via"] = page.via
            page.follow("/more")
            return {
                "id": page.id, "visit": page.visit, "status": page.status, "type": page.content_type,
                "charset": page.charset, "html": page.html, "body": page.body.decode("latin-1"),
                "headers": page.headers.getall("x-name"), "links": [link.url for link in page.links],
                "depth": page.depth, "title": page.record["title"], "pid": os.getpid(),
            }
        case "none": return None
        case "drop": return crawler.DROP
        case "raise": raise KeyError("price")
        case "number": return 3
        case "object": return {"a": object()}
        case "nan": return {"a": float("nan")}
        case "url": return {"follows": bool(page.follow("mailto:a@b.test"))}
        case "leave": sys.exit(3)
        case "coroutine": return later(page)
        case "die": os._exit(7)
        case "signal": os.kill(os.getpid(), signal.SIGSEGV)
        case "hang": time.sleep(3600)
        case "start":
            started = os.fork()
            if not started:
                time.sleep(3600)
            return {"pid": started}
        case "fork":
            copy = os.fork()
            if copy:
                os.waitpid(copy, 0)
            return {"copy": copy == 0}

async def later(page):
    await asyncio.sleep(0)
    if page.url.endswith("/wait"):
        await deep()
    return does(page)

async def deep():
    await asyncio.Event().wait()
"""
FAILURES = {
    "raise": "KeyError: 'price'",
    "number": "returned int instead of a dict, None or crawler.DROP",
    "object": "not valid JSON",
    "nan": "not valid JSON",
    "leave": "SystemExit: 3",
}


def facts(what: str) -> PageFacts:
    headers = (("X-Name", "a"), ("X-Name", "b"))
    url, line = f"http://h.test/{what}", b'{"title":"gr\\u00fc\\u00dfe"}\n'
    return PageFacts("0f-2", url, 200, headers, BODY, "latin-1", "text/html", 1, "http://h.test/", (url,), line)


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    name = f"code_of_calls_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    return name


@asynccontextmanager
async def closing(calls: PageCalls[Answered]) -> AsyncIterator[Callable[[str], Any]]:
    """Calls, by what the page asks for."""

    async def call(what: str) -> Answered:
        return await asyncio.wait_for(calls.begin(facts(what), follows).answer, PATIENCE)

    try:
        yield call
    finally:
        calls.close()


async def told(call: Callable[[str], Any], name: str) -> int:
    """All that a function may do; returns the process that did it."""
    data, links, keep = await call("data")
    pid: int = data.pop("pid")
    assert (links, keep) == (("/more",), True)
    assert data == {
        "id": "0f-2",
        "visit": 2,
        "status": 200,
        "type": "text/html",
        "charset": "windows-1252",
        "html": "<title>grüße</title>",
        "body": BODY.decode("latin-1"),
        "headers": ["a", "b"],
        "links": ["http://h.test/data"],
        "depth": 1,
        "title": "grüße",
        "via": "http://h.test/",
    }
    assert await call("none") == Answered()
    assert await call("drop") == Answered(keep=False)
    assert await call("url") == Answered({"follows": False}, ("mailto:a@b.test",))
    for what, words in FAILURES.items():
        with pytest.raises(CallFailed) as failed:
            await call(what)
        assert words in str(failed.value)
        assert f"{name}.py" in str(failed.value), "the file of the user"
        assert "\n" not in str(failed.value)
    return pid


async def test_in_threads(code: str) -> None:
    async with closing(OwnPages(Threads(load_code(f"{code}:does", ["page"])))) as call:
        assert await told(call, code) == os.getpid()
        with pytest.raises(CallFailed):
            await call("coroutine")
        assert await call("fork") == Answered({"copy": False}), "the copy ends when it returns"


async def test_in_an_event_loop(code: str) -> None:
    calls = OwnPages(Loops(load_code(f"{code}:later", ["page"])))
    async with closing(calls) as call:
        assert await told(call, code) == os.getpid()
        hangs = calls.begin(facts("wait"), follows)
        await call("none")
        line = MODULE.splitlines().index("    await asyncio.Event().wait()") + 1
        assert (hangs.place() or "").endswith(f"{code}.py:{line}")
        hangs.abandon()
        assert hangs.answer.cancelled()
        assert await call("none") == Answered()


async def test_in_processes(code: str) -> None:
    calls = PageProcesses(load_code(f"{code}:does", ["page"]), 1)
    async with closing(calls) as call:
        pid = await told(call, code)
        assert pid != os.getpid()
        assert (await call("data")).data["pid"] == pid, "one after the other, in one process"
        assert await call("fork") == Answered({"copy": False}), "the copy does not answer, and ends when it returns"
        for what, words in (("die", "exit code 7"), ("signal", "SIGSEGV")):
            with pytest.raises(CallFailed, match=words):
                await call(what)
        starts = calls.begin(facts("data"), follows)
        assert starts.begun is not None, "the time of its import does not count"
        await asyncio.wait_for(starts.begun, PATIENCE)
        pid = (await asyncio.wait_for(starts.answer, PATIENCE)).data["pid"]
        hangs = calls.begin(facts("hang"), follows)
        assert hangs.begun is None
        hangs.abandon()
        with pytest.raises(asyncio.CancelledError):
            await hangs.answer
        assert (await call("data")).data["pid"] != pid
        started = (await call("start")).data["pid"]
    for each in (pid, started):
        gone = partial(is_gone, each)
        await asyncio.to_thread(wait_until, gone, "all that was started ends with the calls")


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that init has not yet asked for its exit code has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_threads_that_hang_are_replaced_and_come_back() -> None:
    let_go, reached = threading.Event(), threading.Semaphore(0)

    def hangs(page: Page) -> None:
        if page.url.endswith("hang"):
            reached.release()
            let_go.wait(PATIENCE)

    calls = OwnPages(Threads(load_code(hangs, ["page"])))
    async with closing(calls) as call:
        begun = [calls.begin(facts("hang"), follows) for _ in range(LOST_MOST - 1)]
        for _ in begun:
            assert await asyncio.to_thread(reached.acquire, timeout=PATIENCE)
        assert (begun[0].place() or "").startswith(f"{HERE}:")
        for each in begun:
            each.abandon()
        assert await call("none") == Answered()
        calls.begin(facts("hang"), follows).abandon()
        with pytest.raises(NoMoreCallsError, match="64"):
            await call("none")
        let_go.set()
        while True:  # until one has returned
            try:
                assert await call("none") == Answered()
                break
            except CallFailed:
                await asyncio.sleep(0.001)


async def test_an_event_loop_that_does_not_turn_is_replaced() -> None:
    let_go, reached = threading.Event(), threading.Event()

    async def blocks(page: Page) -> None:
        if page.url.endswith("hang"):
            reached.set()
            let_go.wait(PATIENCE)  # does not give way

    calls = OwnPages(Loops(load_code(blocks, ["page"]), deaf_after=0.0))
    async with closing(calls) as call:
        hangs = calls.begin(facts("hang"), follows)
        assert await asyncio.to_thread(reached.wait, PATIENCE)
        assert (hangs.place() or "").startswith(f"{HERE}:")
        hangs.abandon()
        assert await call("none") == Answered()
        let_go.set()
