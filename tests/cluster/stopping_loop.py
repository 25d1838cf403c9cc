"""A loop in virtual time on which several simulated processes live, any of which can be stopped and go on, as by
SIGSTOP and SIGCONT."""

from __future__ import annotations

import asyncio
import heapq
from contextvars import ContextVar
from typing import Any

from tests.laboratory import VirtualLoop

# Whose code runs; None: that of the world around the processes.
process: ContextVar[object | None] = ContextVar("process", default=None)


class StoppingLoop(VirtualLoop):
    """What a stopped process was to do waits until it goes on; time passes meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped: set[object] = set()
        self._parked: list[asyncio.Handle] = []
        self._sweeps = False  # whether timers may be left of one that was stopped just now

    def halt(self, who: object) -> None:
        """Stop a process after this turn of the loop."""
        self._stopped.add(who)
        self._sweeps = True

    def go_on(self, who: object) -> None:
        """Let it do what it was to do meanwhile."""
        self._stopped.discard(who)
        parked, self._parked = self._parked, []
        for handle in parked:
            if _is_of(handle, self._stopped):
                self._parked.append(handle)
            elif isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)

    def _run_once(self) -> None:
        if self._stopped:
            self._park(self._ready)
        if self._sweeps:
            self._park(self._scheduled)
            heapq.heapify(self._scheduled)
            self._sweeps = False
        super()._run_once()

    def _park(self, queue: Any) -> None:
        halted = [handle for handle in queue if _is_of(handle, self._stopped)]
        if halted:
            left = [handle for handle in queue if not _is_of(handle, self._stopped)]
            queue.clear()
            queue.extend(left)
            self._parked += halted


def _is_of(handle: asyncio.Handle, stopped: set[object]) -> bool:
    return handle._context.get(process) in stopped  # there is no other way to know
