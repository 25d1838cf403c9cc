"""Runs a module on clocks that go by what the process does, so that a slow tool measures the same work as a fast one.

    python benchmarks/crawl/count_clock.py MODULE ARGUMENT...

Under callgrind a process is fifty times slower. Work that comes every second would come fifty times as often for each
page, and deadlines would pass. So the clocks of this process go on by a fixed step with each reading of any of them,
and by as much as the event loop really waited for sockets; but not by the time in which it computes.
"""

from __future__ import annotations

import runpy
import selectors
import sys
import time
from collections.abc import Callable
from typing import Any

STEP = 10e-6  # seconds a reading; a page takes some dozens of readings


class CountClock:
    """The seconds of a process, by its readings and its waiting."""

    def __init__(self, real: Callable[[], float]) -> None:
        self._real = real
        self._passed = 0.0

    def passed(self) -> float:
        """Seconds from the start on."""
        self._passed += STEP
        return self._passed

    def waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """The same function; what it takes is time that passes."""

        def timed(*arguments: object, **named: object) -> object:
            began = self._real()
            try:
                return wait(*arguments, **named)
            finally:
                self._passed += self._real() - began

        return timed


def replace_clocks() -> None:
    """Let the clocks of this process go by what it does."""
    clock, wall, boot = CountClock(time.perf_counter), time.time(), time.clock_gettime
    began = {name: getattr(time, name)() for name in ("monotonic", "perf_counter")}

    def clock_gettime(number: int) -> float:
        return began["monotonic"] + clock.passed() if number == time.CLOCK_BOOTTIME else boot(number)

    time.time = lambda: wall + clock.passed()
    time.time_ns = lambda: int((wall + clock.passed()) * 1e9)
    time.monotonic = lambda: began["monotonic"] + clock.passed()
    time.perf_counter = lambda: began["perf_counter"] + clock.passed()
    time.clock_gettime = clock_gettime
    selectors.EpollSelector.select = clock.waiting(selectors.EpollSelector.select)  # type: ignore[method-assign]


if __name__ == "__main__":
    replace_clocks()
    sys.argv = sys.argv[1:]
    sys.path[0] = ""
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
