"""Writes the records of a run to standard output, for ``--output -``.

The file is the buffer: a thread copies the durable part of ``pages.jsonl`` at the reader's pace. A slow reader delays
only the end of the run, and only records that a crash cannot undo are written. After a signal, the run does not wait
for a stalled reader.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crawler.base.named_stream import STANDARD_OUTPUT, Naming
from crawler.base.queued_stream import STALLED
from crawler.job.output.record_text import read_text, text_size

log = logging.getLogger("crawler")

_PIECE = 4096  # bytes that can be written without blocking when poll reports a pipe writable (pipe(7): PIPE_BUF)
_AHEAD = 2**16  # bytes per read
_LOOK = 0.1  # seconds between two checks for new records, and for a closed pipe
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class RecordPipe:
    """Copies what is appended to a file from now on to a descriptor. The caller must close this object."""

    def __init__(self, path: Path, descriptor: int, signalled: Callable[[], bool] = bool) -> None:
        """``signalled`` returns True once a signal has asked the program to end. Raises OSError."""
        self._path = path
        self._signalled = signalled
        self._taken = time.monotonic()  # time of the reader's last progress
        self._at = text_size(path)
        self._read = b""  # data not written yet; it ends at ``_at``
        self._to = descriptor
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="records")
        self.reader_left = False

    async def keep(self, durable: Callable[[], int | None], left: Callable[[], object]) -> None:
        """Copy the durable data until cancelled. ``durable`` returns where it ends. When the reader closes the pipe,
        stop copying and call ``left``."""
        while not self.reader_left:
            await self.copy(durable())
            await asyncio.sleep(_LOOK)
        left()

    async def copy(self, end: int | None) -> None:
        """Copy up to offset ``end``, if known; at the end of a run this copies the rest."""
        if not self.reader_left:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._copy, end or 0)

    def close(self) -> None:
        self._closed = True
        self._thread.shutdown()

    def _copy(self, end: int) -> None:
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        while not self._closed:
            (state,) = [state for _, state in poll.poll(_LOOK * 1000)] or [0]
            self.reader_left = bool(state & _GONE)
            if self.reader_left:
                return
            if not self._read:
                self._read = read_text(self._path, min(_AHEAD, end - self._at), self._at) if self._at < end else b""
                self._at += len(self._read)
            if not self._read:
                self._taken = time.monotonic()
                return  # the end of the file, or the file was truncated, which the crawl detects and then stops
            if not state:  # the reader is slow
                if self._signalled() and time.monotonic() - self._taken > STALLED:
                    log.warning("%s is not read: the last records are only in %s", STANDARD_OUTPUT, self._path)
                    self.reader_left = True
                    return
                continue
            try:
                with Naming():
                    self._read = self._read[os.write(self._to, self._read[:_PIECE]) :]
                    self._taken = time.monotonic()
            except BrokenPipeError:
                self.reader_left = True
                return
