"""``crawler tail DIR``: follows the records of a job."""

from __future__ import annotations

import argparse
import select
import sys

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.options import whole_number
from crawler.cli.subject import add_subject
from crawler.inspect.record_stream import once_known, tail_of
from crawler.job.records import Outcome

_POLL = 0.25  # seconds between two checks of the job


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the records of pages.jsonl, each as soon as it is final."
    add_subject(parser)
    first = parser.add_mutually_exclusive_group()
    first.add_argument("-n", type=whole_number, default=10, metavar="N", help="the last N records first (10)")
    first.add_argument("--all", action="store_true", help="all records first")
    first.add_argument(
        "--since",
        metavar="CURSOR",
        help="instead, records after this cursor (0: all), each with its change and its cursor",
    )
    parser.add_argument("--follow", "-f", action="store_true", help="then follow new records, across runs")
    parser.add_argument(
        "--outcome",
        action="append",
        default=[],
        choices=[outcome.value for outcome in Outcome],
        help="only records with this outcome",
    )
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    job, tail = arguments.job, tail_of(arguments.job, arguments.outcome)
    out = sys.stdout.buffer
    more, reader = tail.more, select.poll()
    reader.register(out.fileno(), 0)  # 0: poll still reports errors and hang-ups
    if arguments.since is not None:
        more = tail.changes
        once_known(job, lambda: tail.resume(arguments.since) or None)
    elif not arguments.all:
        out.writelines(once_known(job, lambda: tail.last(arguments.n)))
    while True:
        for line in more():
            out.write(line)
        out.flush()
        if not arguments.follow:
            return Exit.OK
        if reader.poll(_POLL * 1000):
            raise BrokenPipeError  # otherwise the command would fail only when it writes the next record
