"""Makes the report of a job on request: one at a time, in a separate process, because it reads all records and would
slow down a crawl in this process.

The process is ``sys.executable -I -c`` with ``START`` and its arguments: the module search path as JSON, the parent's
process ID, and the job. It ends when its parent does. The report goes to standard output. Temporary files are in a
directory of the parent, so killing the child leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from crawler.base.parent_death import end_with_parent
from crawler.inspect.export.beside import ExportError
from crawler.inspect.export.job_report import report_of
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.service.own_share import Reused
from crawler.service.view import Unavailable, Unreadable

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from crawler.service.report_maker import main; sys.exit(main(int(sys.argv[2]), sys.argv[3]))"
)
NICE = 10  # the crawl has priority
TIMEOUT = 600.0  # seconds; a million records take less than two minutes
FRESH = 30.0  # seconds for which a report is reused ...
FRESH_TIMES = 10  # ... or this many times the duration of making it


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
        directory = str(self._directory.absolute())
        words = ["-I", "-c", START, json.dumps(sys.path), str(os.getpid()), directory]
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        with tempfile.TemporaryDirectory(prefix="crawler-look-") as scratch:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, stdin=null, stdout=pipe, stderr=pipe, env=os.environ | {"TMPDIR": scratch}
            )
            try:
                async with asyncio.timeout(TIMEOUT):
                    made, said = await process.communicate()
            except TimeoutError:
                raise Unavailable(f"The report takes more than {TIMEOUT:.0f} s: use crawler report.") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            lines = said.decode("utf-8", "replace").strip().splitlines()
            line = lines[-1] if lines else f"its process ended with {process.returncode}"
            raise Unreadable(f"The report cannot be made: {line.replace(directory, 'the job')[:1_000]}")
        return made


def main(parent: int, job: str) -> int:
    """Write the report of the job to standard output and return the exit code. An error goes to standard error, in one
    line."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal sends them for the parent
    end_with_parent()
    if os.getppid() != parent:
        return 1  # the parent ended before `end_with_parent`
    os.nice(NICE)
    try:
        sys.stdout.buffer.write(report_of(Path(job)))
        sys.stdout.flush()
    except (ExportError, JobError, OSError, *DAMAGE) as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return 1
    return 0
