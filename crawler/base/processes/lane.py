"""Requests that wait for a pool of processes, and the consequences of a process's death.

The host that has cost least is next, so that expensive pages of many hosts do not delay an innocent one. A process gets
one request at a time, or a few ahead, so that it need not wait for the event loop between two requests. If a process
dies, it was working on the first request that it held: that request has failed, and the process's other requests are
sent to another process as if they were new.
"""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from msgspec import Struct, field

from crawler.base.processes.child import KILLED
from crawler.base.processes.fair_line import NEWCOMERS_OUT, FairLine
from crawler.base.processes.forker import Bytes, Child, Forker
from crawler.base.processes.frames import Report, WireError

T = TypeVar("T")

AHEAD_BYTES = 256 * 1024  # maximum bytes of the requests sent ahead to a process
PATIENCE = 60.0  # seconds; a process that takes longer for one page is considered hung
KILLS_MOST = 2  # retries of a page whose process was killed from outside, or did not answer
STARTS_IN_VAIN = 8  # waiting requests fail after this many processes in a row have ended before they were ready
STARTS_AT_ONCE = 3  # number of starts without a pause; then the pause is a second, and doubles with each start ...
START_AGAIN = 60.0  # ... up to this many seconds, as memory or processes may be scarce


class Why(Enum):
    """The reason why a request has no answer."""

    NEEDS_MEMORY = auto()  # the process exceeded its memory limit, or crashed, possibly because of that
    NEEDS_TIME = auto()
    RAISED = auto()
    KILLED = auto()
    NOT_STARTED = auto()


class Failed(Struct, frozen=True):
    """A request has no answer.

    ``reason`` is the limit that it exceeds, the exception (with its ``traceback``), or the fate of the process.
    """

    why: Why
    reason: str
    traceback: str | None = None

    @property
    def place(self) -> str | None:
        """The line of code that raised the exception."""
        lines = reversed((self.traceback or "").splitlines())
        return next((line for line in lines if line.startswith("  File ")), self.traceback)

    def text(self, needs: str) -> str:
        """Return the reason, preceded by ``needs`` if the request exceeds its limits."""
        return f"{needs} {self.reason}" if self.why in (Why.NEEDS_MEMORY, Why.NEEDS_TIME) else self.reason


class Request(Struct, eq=False):
    """A request for a page of a host: the question, the body, and the limit of CPU seconds (0: unlimited).

    ``usual`` is the request's typical cost in seconds. ``begun``, if set, is resolved when a process starts reading it.
    """

    host: str
    asked: bytes
    body: Bytes
    seconds: float = 0.0
    usual: float = 0.0
    begun: asyncio.Future[None] | None = None
    found: asyncio.Future[list[bytes] | Failed] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    parts: list[bytes] = field(default_factory=list)  # the parts of the answer
    kills: int = 0


class _State(Enum):
    STOPPED = auto()
    STARTING = auto()
    READY = auto()
    ENDING = auto()


class _Process:
    """One process, and the requests sent to it."""

    def __init__(
        self,
        forker: Forker,
        memory: int,
        take: Callable[[_Process, Report, bool, bytes], None],
        ended: Callable[[_Process, int], None],
    ) -> None:
        self.child = Child(forker, memory, partial(take, self), partial(ended, self))
        self.state = _State.STOPPED
        self.sent = deque[Request]()
        self.since = 0.0  # time at which the process started the first of them
        self.watch: asyncio.TimerHandle | None = None

    def is_idle(self) -> bool:
        return self.state in (_State.STARTING, _State.READY) and not self.sent

    def has_room(self, ahead: int) -> bool:
        size = sum(len(request.body) for request in self.sent)
        return self.state is _State.READY and len(self.sent) <= ahead and size < AHEAD_BYTES

    def begin(self, patience: float, lose: Callable[[_Process], None]) -> None:
        """Start measuring the time that the process takes for its first request, if it has one."""
        loop = asyncio.get_running_loop()
        self.stop_watch()
        self.since = loop.time()
        if self.sent:
            self.watch = loop.call_later(patience, lose, self)
            begun = self.sent[0].begun
            if begun is not None and not begun.done() and self.state is _State.READY:
                begun.set_result(None)

    def stop_watch(self) -> None:
        if self.watch is not None:
            self.watch.cancel()
            self.watch = None


class Lane:
    """A pool of processes of one program, and the requests that wait for them.

    The first requests start the processes.
    """

    def __init__(
        self,
        forker: Forker,
        processes: int,
        memory: int = 0,
        *,
        ahead: int = 0,
        patience: float = PATIENCE,
        kills_most: int = KILLS_MOST,
    ) -> None:
        """``memory`` is the number of bytes that each process may use; 0 means unlimited.

        ``ahead`` is the number of requests that a process holds in addition to the current one.
        """
        self._forker = forker
        self._memory = memory
        self._ahead = ahead
        self._patience = patience
        self._kills_most = kills_most
        self._line = FairLine[Request](max(NEWCOMERS_OUT, processes))
        self._again = deque[Request]()  # requests to send again, because their process has ended
        self._processes = [_Process(forker, memory, self._take, self._ended) for _ in range(processes)]
        self._in_vain = 0  # failed starts in a row
        self._start_at = 0.0  # earliest time at which the next process may start
        self._waking: asyncio.TimerHandle | None = None  # timer for that time
        self._fault = ""  # error of the last failed start

    async def ask(self, request: Request, decode: Callable[[list[bytes]], T]) -> T | Failed:
        """Send a request, and return the result of ``decode`` for the parts of its answer."""
        self.put(request)
        return await self.answer(request, decode)

    def put(self, request: Request) -> None:
        """Queue a request for a process."""
        self._line.put(request.host, request, request.usual)
        self._hand_out()

    async def answer(self, request: Request, decode: Callable[[list[bytes]], T]) -> T | Failed:
        """Wait for the answer to a request, and return the result of ``decode`` for its parts."""
        found = await request.found
        try:
            return found if isinstance(found, Failed) else decode(found)
        except Exception as error:  # noqa: BLE001 -- an untrusted page may have caused these bytes
            return Failed(Why.RAISED, f"its process sent an invalid answer: {error}", traceback.format_exc())

    def abandon(self, request: Request) -> None:
        """Cancel a request whose result is no longer needed. If a process has already received the request, kill the
        process."""
        request.found.cancel()
        for process in self._processes:
            if request in process.sent:
                self._kill(process)

    def close(self) -> None:
        """Kill all processes of the program, and cancel waiting requests. The next request starts new processes."""
        self._forker.close()
        self._stop_waking()
        waiting = [*self._again, *self._line]
        for process in self._processes:
            process.stop_watch()
            process.state = _State.STOPPED
            waiting += process.sent
            process.sent.clear()
        for request in waiting:
            request.found.cancel()
        self._again.clear()
        self._line.clear()

    # -- the line ----------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        while self._again or self._line.first() is not None:
            process = self._free()
            if process is None:
                return
            request = self._next()
            if request.found.done():  # cancelled
                self._line.charge(request.host, 0.0)
                continue
            request.parts.clear()
            process.sent.append(request)
            if len(process.sent) == 1:
                process.begin(self._patience, self._kill)
            process.child.send(request.seconds, request.asked, request.body)

    def _next(self) -> Request:
        return self._again.popleft() if self._again else self._line.take()

    def _free(self) -> _Process | None:
        """Return a process that is idle, or that may get a request ahead."""
        idle = next((process for process in self._processes if process.is_idle()), None) or self._start()
        return idle or next((process for process in self._processes if process.has_room(self._ahead)), None)

    def _start(self) -> _Process | None:
        """Start a process unless another one is starting. If no process starts, the requests wait for at most half a
        minute."""
        stopped = [process for process in self._processes if process.state is _State.STOPPED]
        if not stopped or any(process.state is _State.STARTING for process in self._processes):
            return None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while now >= self._start_at:
            self._in_vain, self._fault = self._in_vain + 1, "it ends before it is ready"
            try:
                stopped[0].child.start()
            except OSError as error:
                self._fault = str(error)
                self._pause()
            else:
                stopped[0].state = _State.STARTING
                return stopped[0]
        if len(stopped) == len(self._processes) and self._in_vain < STARTS_IN_VAIN:
            self._stop_waking()
            self._waking = loop.call_at(self._start_at, self._hand_out)
        elif len(stopped) == len(self._processes):
            while self._again or self._line.first() is not None:
                self._tell(self._next(), 0.0, Failed(Why.NOT_STARTED, f"its process does not start ({self._fault})"))
        return None

    def _pause(self) -> None:
        """Delay the next start after a failed one."""
        if self._in_vain >= STARTS_AT_ONCE:
            pause = min(START_AGAIN, 2.0 ** min(9, self._in_vain - STARTS_AT_ONCE))
            self._start_at = asyncio.get_running_loop().time() + pause

    def _stop_waking(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def _tell(self, request: Request, cost: float, found: list[bytes] | Failed) -> None:
        self._line.charge(request.host, max(0.0, cost - request.usual))
        if not request.found.done():
            request.found.set_result(found)

    # -- events of the processes --------------------------------------------------------------------------------

    def _take(self, process: _Process, told: Report, ends: bool, payload: bytes) -> None:
        if told is Report.READY:
            self._in_vain, self._start_at, process.state = 0, 0.0, _State.READY
            process.begin(self._patience, self._kill)
        elif not process.sent:
            raise WireError("an answer without a request")
        elif told is Report.PART:
            process.sent[0].parts.append(payload)
            return
        else:
            if ends:
                process.state = _State.ENDING
            self._done(process, self._answer(process.sent[0], told, payload))
        self._hand_out()

    def _answer(self, request: Request, told: Report, payload: bytes) -> list[bytes] | Failed:
        if told is Report.DONE:
            return [*request.parts, payload]
        if told is Report.MEMORY:
            return Failed(Why.NEEDS_MEMORY, self._limit)
        reason, _, place = payload.decode("utf-8", "replace").partition("\n")
        return Failed(Why.RAISED, reason, place)

    def _done(self, process: _Process, found: list[bytes] | Failed) -> None:
        request, cost = process.sent.popleft(), asyncio.get_running_loop().time() - process.since
        process.begin(self._patience, self._kill)
        self._tell(request, cost, found)

    def _ended(self, process: _Process, code: int) -> None:
        """Handle the end of a process that ended by itself, reached a limit or crashed. Its first request is to blame
        only if the process was ready and had not announced that it would end."""
        if process.sent and process.state is _State.READY:
            first = process.sent[0]
            if code in (0, KILLED) and first.kills < self._kills_most:
                first.kills += 1
            else:
                self._done(process, self._death(first, code))
        if process.state is _State.STARTING:
            self._pause()
        process.stop_watch()
        process.state = _State.STOPPED
        self._again.extendleft(reversed(process.sent))
        process.sent.clear()
        self._hand_out()

    def _death(self, request: Request, code: int) -> Failed:
        if code == -signal.SIGPROF:
            return Failed(Why.NEEDS_TIME, f"{round(request.seconds, 2):g} s of CPU time")
        if code in (0, KILLED):
            return Failed(Why.KILLED, "its process was killed, or gave no answer")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Failed(Why.NEEDS_MEMORY, f"{self._limit}, or crashed ({how})" if self._memory else how)

    @property
    def _limit(self) -> str:
        return f"{self._memory // 2**20} MiB of memory"

    def _kill(self, process: _Process) -> None:
        process.child.kill()
        self._ended(process, KILLED)
