"""A signal that comes at any moment of a command: at each line of what begins and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from crawler import __main__ as program
from crawler.cli import interruptible
from crawler.cli.interruptible import run_interruptible
from crawler.service import ending_signals

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
WATCHED = {inspect.getfile(each) for each in (interruptible, ending_signals, contextlib, asyncio.runners)}
# Forked for each line of the program's first and last function, after all was imported. What Python says of a signal
# that nothing handles is seen on standard error.
FORKING = """
import os, signal, sys
from crawler import __main__ as program, cli
import crawler.base.printable, crawler.base.queued_stream

def command(words=None, loaded=max):
    loaded(False, False)
    return 0

cli.main = command
number = signal.Signals[sys.argv[1]]
for at in range(1_000):
    reached, told = os.pipe()
    pid = os.fork()
    if not pid:
        left, begun = [at], []
        def trace(frame, event, _):
            if frame.f_code.co_filename not in (program.__file__, "<string>"):
                return None
            if signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler):
                begun.append(at)
            if event == "line" and begun:
                left[0] -= 1
                if left[0] == -1:
                    os.write(told, b"x")
                    signal.raise_signal(number)
            return trace
        sys.settrace(trace)
        program.run()
    os.close(told)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
    if not os.read(reached, 1):
        break
    os.close(reached)
"""
STUBBORN = """
import asyncio
from crawler.cli.interruptible import run_interruptible

async def work():
    print("begun", flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)

run_interruptible(work)
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """What the program does with signals while a command runs."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS[1:]:
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Line:
    """Sends a signal before the line with this number, of those that the watched modules run from now on."""

    def __init__(self, at: int, number: int) -> None:
        self.left = at
        self._number = number

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            self.left -= 1
            if self.left == -1:
                signal.raise_signal(self._number)
        return self


def run_with_signal(at: int, number: int, make: Callable[[], Any]) -> bool:
    """Run it as a command with a signal before that line. Returns whether it came so far."""
    line, before = Line(at, number), sys.gettrace()
    handlers = [signal.getsignal(each) for each in SIGNALS]
    try:
        sys.settrace(line)
        try:
            run_interruptible(make)
        finally:
            sys.settrace(before)
    except KeyboardInterrupt:
        assert line.left < 0
        came = True
    else:
        came = line.left < 0
        assert not came, "the signal was lost"
    assert [signal.getsignal(each) for each in SIGNALS] == handlers
    return came


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_any_line_ends_the_command_as_ctrl_c_does(number: signal.Signals) -> None:
    begun, ended = list[int](), list[int]()

    async def work(at: int) -> None:
        begun.append(at)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            ended.append(at)

    at = 0
    while run_with_signal(at, number, partial(work, at)):
        at += 1
    assert at > 50, "the lines are those of the loop, its handlers and its end"
    assert begun[0] > 0, "it does not begin after a signal"
    assert begun == ended
    gc.collect()  # a loop or a coroutine that was left behind would say so


def test_a_coroutine_that_ends_well_although_it_is_cancelled_has_its_result() -> None:
    async def work() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.0)  # is not broken off
            await asyncio.sleep(0.0)
            return "in order"
        raise AssertionError("it was not cancelled")

    assert run_interruptible(work) == "in order"


def test_a_second_ctrl_c_ends_what_does_not_end() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            process.stdout.readline()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_any_line_of_the_program_leaves_no_traceback(number: signal.Signals) -> None:
    words = [sys.executable, "-c", FORKING, number.name]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    assert all("interrupted" in line for line in ran.stderr.splitlines()), ran.stderr
    codes = [int(line) for line in ran.stdout.split()]
    assert len(codes) > 20, "the lines are those of the first and the last function"
    assert set(codes) == {0, program.INTERRUPTED}
