"""``crawler verify DIR`` checks all checksums and counts of a job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.integrity_text import finding_text
from crawler.integrity.finding import is_fault
from crawler.integrity.verifier import verify_job


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    if arguments.json:
        findings = list(verify_job(arguments.job))
        whole = not any(map(is_fault, findings))
        print(json.dumps({"whole": whole, "findings": [finding.as_json() for finding in findings]}, indent=2))
        return Exit.OK if whole else Exit.FAILED
    faults = mending = 0
    for finding in verify_job(arguments.job):
        print(f"{arguments.job}: {finding_text(finding)}")
        faults += is_fault(finding)
        mending += not is_fault(finding)
    if faults:
        return Exit.FAILED
    print(f"{arguments.job}: whole{', once the next run has mended this' if mending else ''}")
    return Exit.OK
