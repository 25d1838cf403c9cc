"""The tools of these tests: what they would miss, they would miss for all hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import world
from tests.hostile.memory import PeakMemory
from tests.hostile.server import page
from tests.hostile.web import EVIL, INNOCENT, Hostile
from tests.program import ROOT, wait_until
from tests.site import linked

IN_A_WORLD = """
import asyncio, contextlib, socket, sys
from tests.hostile import world
world.enter({"h.test": "127.0.0.1", "*.wild.test": "192.0.2.1"}, sys.argv[1])
"""


def run(tmp_path: Path, code: str) -> str:
    """What a program prints that has entered a world."""
    stalls = world.stalls_file(tmp_path / "stalls")
    command = [sys.executable, "-c", IN_A_WORLD + code, str(stalls)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_only_known_names_have_an_address_and_only_loopback_is_dialled(tmp_path: Path) -> None:
    code = """
import aiohttp
async def main():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    for target in ("192.0.2.7", "2001:db8::1", "example.com"):
        with contextlib.suppress(OSError):
            socket.create_connection((target, 80), 1)
            print("dialled", target)
    async with aiohttp.ClientSession() as session:
        for host in ("h.test", "a.b.wild.test", "wild.test", "example.com", "192.0.2.7"):
            try:
                await session.get(f"http://{host}:1/")
            except aiohttp.ClientConnectorDNSError:
                print(host, "unknown")
            except aiohttp.ClientConnectorError as error:
                print(host, error.strerror)
asyncio.run(main())
"""
    assert run(tmp_path, code).splitlines() == [
        "h.test Connect call failed ('127.0.0.1', 1)",
        "a.b.wild.test Network is unreachable: 192.0.2.1",
        "wild.test unknown",
        "example.com unknown",
        "192.0.2.7 Network is unreachable: 192.0.2.7",
    ]


def test_a_stall_is_what_the_program_itself_spends(tmp_path: Path) -> None:
    code = """
import pathlib, threading, time
def burn():
    end = time.thread_time() + 0.4
    while time.thread_time() < end:
        pass
async def main():
    async def after(what):
        await asyncio.sleep(0.05)
        print(what, *(figure > 0.25 for figure in world.read_stalls(pathlib.Path(sys.argv[1]))))
    with socket.create_server(("127.0.0.1", 0)) as server:
        await asyncio.sleep(0.05)
        burn()
        await after("before the first connection")
        socket.create_connection(server.getsockname()).close()
        await asyncio.sleep(0.05)
        time.sleep(0.4)
        await after("as if it waited for a processor")
        sys.setswitchinterval(10)
        threading.Thread(target=burn).start()  # and the interpreter's lock is with it
        await after("while another thread computed")
asyncio.run(main())
"""
    told = run(tmp_path, code)
    assert told.splitlines() == [
        "before the first connection False False",
        "as if it waited for a processor False True",
        "while another thread computed True True",
    ]


def test_memory_of_children_counts() -> None:
    child = "import sys; held = b'x' * 80_000_000; sys.stdin.read()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process, PeakMemory(process.pid) as memory:
        wait_until(lambda: memory.most > 80_000_000, "the child's memory is seen")
        process.communicate(b"")


def healthy(web: Hostile) -> None:
    web.pages[EVIL] = {"/": page(linked(["/a"])), "/a": page("x")}


def test_a_quiet_crawl_holds(hostile: Hostile) -> None:
    healthy(hostile)
    crawled = hostile.crawl()
    assert crawled.outcomes() == {"fetched": 2}
    assert hostile.server.by_host() == {EVIL: 3}
    assert crawled.peak > 30 * 2**20
    assert crawled.stall > 0
    assert min(crawled.innocent_gaps()) > 0.01


def lose_a_page(web: Hostile) -> None:
    web.innocent.pages = {path: page for path, page in web.innocent.pages.items() if path != "/page/7"}


def ask_twice(web: Hostile) -> None:
    web.innocent.asked.append(web.innocent.asked[-1])


def say_less(web: Hostile) -> None:
    web.innocent.pages = {**web.innocent.pages, "/page/99": "never linked"}


@pytest.mark.parametrize("harm", [say_less, ask_twice])
def test_an_innocent_host_that_lost_something_is_noticed(hostile: Hostile, harm: Callable[[Hostile], None]) -> None:
    healthy(hostile)
    crawled = hostile.crawl()
    harm(hostile)
    with pytest.raises(AssertionError):
        crawled.hold_innocent()


def test_a_strike_against_the_innocent_host_is_noticed(hostile: Hostile) -> None:
    healthy(hostile)
    lose_a_page(hostile)
    with hostile.running() as program:
        crawled = program.end()
    assert crawled.row("/page/7", INNOCENT)["status"] == 404
    with pytest.raises(AssertionError):
        crawled.hold_innocent()
