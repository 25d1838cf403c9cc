"""Standard error of a crawl: a stalled reader, such as a pager or a blocked log driver, does not delay the crawl."""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections import deque
from typing import Any, TextIO

from crawler.base.disk import FULL
from crawler.base.figures import counted
from crawler.base.say import turn_away

_ROOM = 2**20  # bytes that may wait for the reader; a crawl writes about 100 bytes every ten seconds
_PIECE = 4096  # bytes that a pipe writes atomically, not mixed with those of other writers (pipe(7): PIPE_BUF)
_PATIENCE = 1.0  # seconds that a thread without an event loop waits for room
STALLED = 2.0  # seconds without progress after which the program ends without waiting for a reader


class QueuedStream:
    """A text stream whose writes never block on its reader: a thread does the writing.

    When too much output is waiting, further lines are dropped. Once the reader has read the waiting ones, a line
    reports how many were dropped. In all other respects this is a proxy for the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._process = os.getpid()
        self._changed = threading.Condition()  # the lock is reentrant: a signal handler may write too
        self._queue = deque[bytes]()
        self._size = 0  # bytes not written yet
        self._full = False  # True while new lines are dropped, until all others are written
        self._dropped = 0  # number of dropped lines
        threading.Thread(target=self._keep_writing, name="lines", daemon=True).start()

    def write(self, text: str) -> int:
        if os.getpid() != self._process:  # user code has forked: this is the copy, which has no thread
            return self._stream.write(text)
        data = text.encode(self._stream.encoding, self._stream.errors or "strict")
        waits = threading.current_thread() is not threading.main_thread()
        room = _ROOM // 2 if waits else _ROOM  # the output of user code must leave room for the crawl's own lines
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._full or self._size < room, _PATIENCE)
            if self._full or self._size >= room:
                self._full = True
                # Only a live view writes escape sequences, and it redraws itself with each line of the log.
                self._dropped += 1 if "\x1b" in text else text.count("\n")
            else:
                self._queue.append(data)
                self._size += len(data)
                self._changed.notify_all()
        return len(text)

    @property
    def behind(self) -> bool:
        """True if some output has not been written yet."""
        return bool(self._size or self._full)

    def drain(self, most: float = math.inf) -> None:
        """Wait until everything is written, but at most ``most`` seconds, and only while the reader makes progress.

        Takes no lock, as a signal handler may call it.
        """
        left, now = self._size, time.monotonic()
        end, stalled = now + most, now + STALLED
        while self.behind and now < min(end, stalled):
            time.sleep(0.001)
            now = time.monotonic()
            if self._size != left:
                left, stalled = self._size, now + STALLED

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _keep_writing(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                data = b"".join(self._queue)
                self._queue.clear()
            self._write(data)
            with self._changed:
                if self._full and not self._size:
                    lines = f"{counted(self._dropped, 'line')} {'was' if self._dropped == 1 else 'were'}"
                    note = f"{lines} not shown: the reader was too slow\n".encode()
                    self._queue.append(note if data.endswith(b"\n") else b"\n" + note)
                    self._size, self._full, self._dropped = len(self._queue[0]), False, 0

    def _write(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + _PIECE) + 1 or min(at + _PIECE, len(data))
            written = end - at  # includes bytes that are lost because the disk is full or the reader is gone
            try:
                written = os.write(self._stream.fileno(), data[at:end])
            except BlockingIOError:  # another program that shares the terminal has made it non-blocking
                select.select((), (self._stream.fileno(),), ())
                written = 0
            except OSError as error:
                if error.errno not in FULL:  # the reader is gone
                    turn_away(self._stream)
            at += written
            with self._changed:
                self._size -= written
                self._changed.notify_all()


def wait_for_reader(stream: object, most: float = math.inf) -> None:
    """If the stream is a ``QueuedStream``, or a proxy for one, wait until its output is written."""
    if wait := getattr(stream, "drain", None):
        wait(most)
