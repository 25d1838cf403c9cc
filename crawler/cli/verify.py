"""``crawler verify DIR`` checks all checksums and counts of a job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.integrity_text import finding_text
from crawler.integrity.verifier import verify_job


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    if arguments.json:
        findings = [finding.as_json() for finding in verify_job(arguments.job)]
        print(json.dumps({"whole": not findings, "findings": findings}, indent=2))
        return Exit.FAILED if findings else Exit.OK
    whole = True
    for finding in verify_job(arguments.job):
        print(f"{arguments.job}: {finding_text(finding)}")
        whole = False
    if not whole:
        return Exit.FAILED
    print(f"{arguments.job}: whole")
    return Exit.OK
