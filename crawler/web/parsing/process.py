"""The crawler's end of the parser's processes: what starts them, and what is told when they end. Other programs that
read what strangers wrote run in processes of the same kind."""

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
from itertools import islice
from mmap import mmap

from msgspec import Struct

from crawler.web.parsing.child_process import ENDED
from crawler.web.parsing.wire import Answers, Told, WireError

log = logging.getLogger("crawler")

_READ_BYTES = 64 * 1024
_PARTS = 64  # sent in one call
PARSER = ("crawler.web.parsing.parser_child",)
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
STARTS_IN_VAIN = 3  # processes that ended before they were ready; then none is started ...
START_AGAIN = 60.0  # ... for so many seconds: memory or processes may have been short
_STDERR = 2
KILLED = -int(signal.SIGKILL)  # by somebody else: no limit of ours sends this signal

Take = Callable[[Told, bool, bytes], None]


class Starts(Struct):
    """The last attempts to start a process, if they were in vain."""

    in_vain: int = 0
    again_at: float = 0.0
    why: str = ""  # of the last one; empty if it ended by itself
    warned: bool = False

    @property
    def reason(self) -> str:
        return self.why or "it ends at once"

    def begin(self, now: float) -> None:
        """Count an attempt as in vain, until its process is ready."""
        self.in_vain, self.again_at, self.why = self.in_vain + 1, now + START_AGAIN, ""

    def may_begin(self, now: float) -> bool:
        return self.in_vain < STARTS_IN_VAIN or now >= self.again_at


class ParserProcess:
    """One parser at a time, and the parent that forks it. Every method returns at once, on the event loop.

    ``take`` is called with each answer. ``ended`` is called when the parser has ended and its answers are taken, with
    its exit code or the negative number of a signal; then ``start`` may be called again.
    """

    def __init__(
        self,
        memory: int,
        take: Take,
        ended: Callable[[int], None],
        program: tuple[str, ...] = PARSER,
        *,
        silent: bool = True,
    ) -> None:
        """``program``: the module whose ``parent`` forks the children, and what that takes besides socket and
        ``memory``. What they print is not shown (``silent``), or goes to standard error."""
        self._silent = silent
        self._memory = memory
        self._program = program
        self._take = take
        self._ended = ended
        self._parent: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._channel: socket.socket | None = None
        self._answers = Answers()
        self._unsent: deque[memoryview] = deque()
        self._blocked = False  # until the socket takes more

    @property
    def running(self) -> bool:
        """Whether there is a parser to send to."""
        return self._channel is not None

    def start(self) -> None:
        """Start a parser; it answers READY. Raises OSError."""
        if self._control is None:
            self._start_parent()
        assert self._control is not None
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            try:
                socket.send_fds(self._control, [b"p"], [theirs.fileno()])
            except OSError:
                ours.close()
                self.kill()
                raise
        self._channel = ours
        self._answers = Answers()
        asyncio.get_running_loop().add_reader(ours, self._read)

    def send(self, *parts: bytes | mmap) -> None:
        """Send a request."""
        self._unsent += [memoryview(part) for part in parts if part]
        if not self._blocked:
            self._write()

    def kill(self) -> None:
        """End the parser, its parent, and what they started, now; ``ended`` is not called."""
        loop = asyncio.get_running_loop()
        self._close_channel()
        if self._control is not None:
            loop.remove_reader(self._control)
            self._control.close()
            self._control = None
        if self._parent is not None:
            with contextlib.suppress(ProcessLookupError):  # all of them have ended
                os.killpg(self._parent.pid, signal.SIGKILL)
            self._parent.wait()
            self._parent = None

    def _start_parent(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            module, *given = self._program
            call = f"from {module} import parent; parent({theirs.fileno()}, {self._memory}, *{given!r})"
            try:
                self._parent = subprocess.Popen(
                    [sys.executable, "-I", "-c", _START + call, json.dumps(sys.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL if self._silent else _STDERR,
                    stderr=subprocess.DEVNULL if self._silent else None,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,  # with all that code of the user starts in it
                )
            except OSError:
                ours.close()
                raise
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._told_of_end)

    def _write(self) -> None:
        channel, unsent = self._channel, self._unsent
        if channel is None:
            return
        try:
            while unsent:
                sent = channel.sendmsg(islice(unsent, _PARTS))
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.popleft())
                if sent:
                    unsent[0] = unsent[0][sent:]
        except BlockingIOError:
            if not self._blocked:
                self._blocked = True
                asyncio.get_running_loop().add_writer(channel, self._write)
            return
        except OSError:  # it has died: its parent tells
            unsent.clear()
        if self._blocked:
            self._blocked = False
            asyncio.get_running_loop().remove_writer(channel)

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
            asyncio.get_running_loop().remove_reader(channel)
            return
        try:
            self._answers.add(data, self._take)
        except WireError as error:
            log.warning("the parser's process answers with %s", error)
            self.kill()
            self._ended(-signal.SIGABRT)

    def _told_of_end(self) -> None:
        assert self._control is not None
        try:
            told = self._control.recv(ENDED.size)
        except OSError:
            told = b""
        while self._channel is not None and _reads(self._channel):
            self._read()
        if self._control is None:  # what it said last was no answer
            return
        if len(told) < ENDED.size:  # the parent itself has died
            self.kill()
            self._ended(KILLED)
            return
        self._close_channel()
        self._ended(ENDED.unpack(told)[0])

    def _close_channel(self) -> None:
        self._unsent.clear()
        self._blocked = False
        if self._channel is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel)
            loop.remove_writer(self._channel)
            self._channel.close()
            self._channel = None


def _reads(channel: socket.socket) -> bool:
    """Whether there are answers left to read."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
