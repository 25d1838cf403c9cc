"""Makes the report of a job on request, one report at a time. It runs ``crawler report`` as another process, because
reading all records would slow down a crawl in this one. The report's files are in a directory of this process, so
killing the other process leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from crawler.base.same_program import words_of
from crawler.service.view_answers import Reused
from crawler.service.view_errors import Unavailable, Unreadable

TIMEOUT = 600.0  # seconds; a million records take less than two minutes
FRESH = 30.0  # minimum seconds for which a report is reused ...
FRESH_TIMES = 10  # ... or this many times as long as the report took to make


class ReportMaker:
    """Makes reports of the job in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made = Reused(self._run, FRESH, FRESH_TIMES)

    async def report(self) -> bytes:
        """Return the report, made once for concurrent requests. Raises Unavailable, Unreadable."""
        try:
            return await self._made.get()
        except OSError as error:
            raise Unavailable(f"The report cannot be made: {error.strerror or error}.") from error

    async def _run(self) -> bytes:
        directory, null = str(self._directory.absolute()), asyncio.subprocess.DEVNULL
        with tempfile.TemporaryDirectory(prefix="crawler-look-") as scratch:
            out = Path(scratch, "report.html")
            process = await asyncio.create_subprocess_exec(
                *("nice", *words_of(), "report", directory, "--out", str(out)),  # the crawl has priority
                stdin=null,
                stdout=null,
                stderr=asyncio.subprocess.PIPE,
                env=os.environ | {"TMPDIR": scratch},
                start_new_session=True,  # Ctrl-C should only reach this process
            )
            try:
                async with asyncio.timeout(TIMEOUT):
                    _, said = await process.communicate()
            except TimeoutError:
                raise Unavailable(f"The report takes more than {TIMEOUT:.0f} s: use crawler report.") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            if not process.returncode:
                return await asyncio.to_thread(out.read_bytes)
        lines = said.decode("utf-8", "replace").strip().splitlines()
        line = lines[-1] if lines else f"its process ended with {process.returncode}"
        line = line.removeprefix("crawler: ").removeprefix("error: ").replace(directory, "the job")
        raise Unreadable(f"The report cannot be made: {line[:1_000]}")
