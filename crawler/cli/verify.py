"""``crawler verify DIR``: whether all checksums and counts of a job agree."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.integrity.verifier import verify_job


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    faults = 0
    for fault in verify_job(arguments.job):
        print(f"{arguments.job}: {fault}")
        faults += 1
    if faults:
        return Exit.FAILED
    print(f"{arguments.job}: whole")
    return Exit.OK
