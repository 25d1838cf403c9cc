"""``crawler report DIR``: writes one HTML page about a crawl."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawler.base.figures import counted
from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.subject import add_subject
from crawler.inspect.export.job_report import write_report


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one HTML page about a job, running or not, to share: outcomes, statuses, broken links by the "
        "number of links, hosts, types, and links left out by limits. The page is one file and loads no others."
    )
    add_subject(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (DIR-report.html in the current directory)")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    job: Path = arguments.job
    out = arguments.out or Path(f"{job.absolute().name}-report.html")
    if out == Path("-"):
        raise UsageError("--out must name a file: the page cannot be written to standard output")
    say_defaults(job)
    try:
        made = write_report(job, out)
    except OSError as error:
        raise FailedError(f"error: no report was written: {' '.join(str(error).split())}") from error
    print(f"{out}: {counted(made.urls, 'URL')}, {made.broken:,} broken; {made.size:,} bytes")
    return Exit.OK
