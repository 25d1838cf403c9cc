"""Makes the report of a job for those who ask: one at a time, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

from crawler.service.report_child import START
from crawler.service.view import Unavailable, Unreadable

TIMEOUT = 600.0  # seconds; a million records take less than two minutes
GRACE = 2.0  # seconds to end in order, for a report that nobody waits for any more
FRESH = 30.0  # seconds for which a report is handed out again ...
FRESH_TIMES = 10  # ... or this many times as long as making it took


class ReportMaker:
    """Makes reports of the job in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made = 0.0, b""  # until when it is fresh, and the report
        self._making: asyncio.Task[bytes] | None = None

    async def report(self) -> bytes:
        """The report, made for all who ask at once. Raises Unavailable, Unreadable."""
        until, made = self._made
        if until > asyncio.get_running_loop().time():
            return made
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Abandon the report in progress."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> bytes:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            made = await self._run()
        except OSError as error:
            raise Unavailable(f"No report can be made: {error.strerror or error}.") from error
        finally:
            self._making = None
        now = loop.time()
        self._made = now + max(FRESH, FRESH_TIMES * (now - began)), made
        return made

    async def _run(self) -> bytes:
        words = ["-I", "-c", START, json.dumps(sys.path), str(os.getpid()), str(self._directory.absolute())]
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=null, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(TIMEOUT):
                made, said = await process.communicate()
        except TimeoutError:
            raise Unavailable(f"The report takes more than {TIMEOUT:.0f} s: use crawler report.") from None
        finally:
            await _end(process)
        if process.returncode:
            directory, words_said = str(self._directory.absolute()), said.decode("utf-8", "replace").strip()
            line = words_said.splitlines()[-1] if words_said else f"its process ended with {process.returncode}"
            raise Unreadable(f"No report can be made: {line.replace(directory, 'the job')[:1_000]}")
        return made


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process, which has some time to remove its files."""
    for end in (process.terminate, process.kill):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await process.wait()
