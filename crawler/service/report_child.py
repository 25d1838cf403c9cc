"""Makes a report in a process of its own: it reads all records, and a crawl beside it needs its own process for itself.

The process is ``sys.executable -I -c`` with ``START`` and its arguments: the module search path as JSON, the process
that wants the report, the job. It ends when that process does. The report goes to standard output: no file of it stays
behind if somebody is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from crawler.base.parent_death import end_with_parent
from crawler.inspect.export.beside import ExportError
from crawler.inspect.export.job_report import report_of
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from crawler.service.report_child import main; sys.exit(main(int(sys.argv[2]), sys.argv[3]))"
)
NICE = 10  # what is left over by the crawl is enough


def main(parent: int, job: str) -> int:
    """Write the report of the job to standard output; the exit code. What was wrong goes to standard error, in one
    line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not at once: what it has opened has files to remove
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal's are for its parent
    end_with_parent()
    if os.getppid() != parent:
        return 1  # it ended before: nobody waits for the report
    os.nice(NICE)
    try:
        sys.stdout.buffer.write(report_of(Path(job)))
        sys.stdout.flush()
    except (ExportError, JobError, OSError, *DAMAGE) as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return 1
    return 0
