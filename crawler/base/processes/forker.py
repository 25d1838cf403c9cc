"""The crawler's side of the child processes: starts the parent, gets children from it, and finds out how they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from itertools import count
from mmap import mmap

from crawler.base.processes.child import ENDED, KILLED, ORDER, PID
from crawler.base.processes.frames import REQUEST, Answers, Report, WireError

log = logging.getLogger("crawler")

Bytes = bytes | mmap  # a body, in memory or in a file
Take = Callable[[Report, bool, bytes], None]

_READ_BYTES = 64 * 1024
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from crawler.base.processes.child import parent; "
_STDERR = 2


class Forker:
    """The parent of all processes of one program. It starts when the first of them is requested."""

    def __init__(self, *program: str, nice: int = 0, silent: bool = True) -> None:
        """``program`` is the name and the arguments of the program.

        The output of the processes is discarded (``silent``) or goes to standard error. ``nice`` lowers their priority
        relative to the crawler.
        """
        self._program = program
        self._nice = nice
        self._silent = silent
        self._parent: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._numbers = count()
        self._children = dict[int, Child]()  # running children
        self._ending = deque[Child | None]()  # children to be killed; None for a child whose exit code is not needed
        self.starts = True  # True while no child is ready yet

    def begin(self, child: Child, memory: int) -> tuple[int, socket.socket]:
        """Start a child; returns its number and its socket. Raises OSError."""
        if self._control is None:
            self._start()
        assert self._control is not None
        number, (ours, theirs) = next(self._numbers), socket.socketpair()
        with theirs:
            ours.setblocking(False)
            try:
                socket.send_fds(self._control, [ORDER.pack(number, memory)], [theirs.fileno()])
            except OSError:
                ours.close()
                self._lost()
                raise
        self._children[number] = child
        return number, ours

    def end(self, number: int, *, tells: bool) -> None:
        """Kill a child if it is still running. With ``tells``, its method ``ended`` is then called with its exit
        code."""
        child = self._children.pop(number)
        if self.starts and not tells:
            self._lost()  # kill the child directly, as the parent itself may hang
        elif self._control is not None:
            self._ending.append(child if tells else None)
            with contextlib.suppress(OSError):  # the parent has died, which is reported elsewhere
                self._control.send(ORDER.pack(number, 0))

    def close(self) -> None:
        """Kill all processes and their descendants now, without calling ``ended``."""
        for child in self._children.values():
            child.close()
        self._children.clear()
        self._ending.clear()
        self.starts = True
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None
        if self._parent is not None:
            _kill(self._parent.pid)
            self._parent.wait()
            self._parent = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            call = f"parent({theirs.fileno()}, {self._nice}, *{self._program!r})"
            try:
                self._parent = subprocess.Popen(
                    [sys.executable, "-I", "-c", _START + call, json.dumps(sys.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL if self._silent else _STDERR,
                    stderr=subprocess.DEVNULL if self._silent else None,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,  # includes every process that user code starts when it is imported
                )
            except OSError:
                ours.close()
                raise
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._told_of_end)

    def _told_of_end(self) -> None:
        assert self._control is not None
        try:
            told = self._control.recv(ENDED.size)
        except OSError:
            told = b""
        if not told:
            self._lost()
        elif (child := self._ending.popleft()) is not None:
            child.ended(ENDED.unpack(told)[0])

    def _lost(self) -> None:
        """Handle the death of the parent, and of all children with it."""
        children = [*self._children.values(), *filter(None, self._ending)]
        self.close()
        for child in children:
            asyncio.get_running_loop().call_soon(child.ended, KILLED)


class Child:
    """Runs one process at a time. Every method returns at once and runs on the event loop."""

    def __init__(self, forker: Forker, memory: int, take: Take, ended: Callable[[int], None]) -> None:
        """``memory`` is the number of bytes that it may use; 0 means unlimited. ``take`` is called with each answer.
        ``ended`` is called when the process has ended and its answers have been taken, with its exit code or the
        negative number of a signal."""
        self._forker = forker
        self._memory = memory
        self._take = take
        self._ended = ended
        self._number: int | None = None
        self._pid: int | None = None
        self._channel: socket.socket | None = None
        self._answers = Answers()
        self._unsent: deque[memoryview] = deque()

    def start(self) -> None:
        """Start a process; it answers READY. Raises OSError."""
        self._number, self._channel = self._forker.begin(self, self._memory)
        self._answers, self._pid = Answers(), None
        asyncio.get_running_loop().add_reader(self._channel, self._read)

    def send(self, seconds: float, stated: bytes, body: Bytes) -> None:
        """Send a request. A process that has ended does not receive it."""
        if self._channel is None:
            return
        waits = bool(self._unsent)
        head = REQUEST.pack(seconds, len(stated), len(body))
        self._unsent += [memoryview(part) for part in (head + stated, body) if part]
        if not waits:
            self._write()

    def kill(self) -> None:
        """Kill the process and its descendants; ``ended`` is not called."""
        self._close_channel(tells=False)

    def close(self) -> None:
        """Kill the process while its parent is being killed too."""
        self._number = None
        if self._pid is not None:
            _kill(self._pid)
        self._close_channel(tells=False)

    def ended(self, code: int) -> None:
        """Handle the end of the process, with its exit code or the negative number of a signal."""
        if self._channel is None:
            self._ended(code)

    def _write(self) -> None:
        loop, unsent = asyncio.get_running_loop(), self._unsent
        assert self._channel is not None
        try:
            while unsent:
                part = unsent.popleft()
                sent = self._channel.send(part)
                if sent < len(part):
                    unsent.appendleft(part[sent:])
        except BlockingIOError:
            unsent.appendleft(part)
            loop.add_writer(self._channel, self._write)
            return
        except OSError:  # the process has died; its remaining answers are read first
            unsent.clear()
        loop.remove_writer(self._channel)

    def _read(self) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            data = channel.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close_channel(tells=True)
            return
        try:
            self._answers.add(data, self._tell)
        except WireError as error:
            log.warning("a child process sent invalid data: %s", error)
            self.kill()
            self._ended(-signal.SIGABRT)

    def _tell(self, told: Report, ends: bool, payload: bytes) -> None:
        if told is Report.READY:
            if self._pid is not None or len(payload) != PID.size:
                raise WireError("an answer without a request")
            (self._pid,) = PID.unpack(payload)
            self._forker.starts = False
        self._take(told, ends, payload)

    def _close_channel(self, *, tells: bool) -> None:
        self._unsent.clear()
        if self._channel is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel)
            loop.remove_writer(self._channel)
            self._channel.close()
            self._channel = None
        if self._number is not None:
            number, self._number = self._number, None
            self._forker.end(number, tells=tells)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # all processes have ended
        os.killpg(group, signal.SIGKILL)
