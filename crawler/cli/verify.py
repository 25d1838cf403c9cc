"""``crawler verify DIR``: checks all checksums and counts of a job."""

from __future__ import annotations

import argparse
import json

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.subject import add_subject
from crawler.inspect.integrity.verifier import verify_crawl


def add_options(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    directory = arguments.job
    if arguments.json:
        found = list(verify_crawl(directory))
        whole = not any(finding.is_fault for _, finding in found)
        findings = [finding.as_json() | partition.as_json for partition, finding in found]
        print(json.dumps({"whole": whole, "findings": findings}, indent=2))
        return Exit.OK if whole else Exit.FAILED
    faults = mending = 0
    for partition, finding in verify_crawl(directory):
        print(f"{partition.directory}: {finding.text}")
        faults += finding.is_fault
        mending += not finding.is_fault
    if faults:
        return Exit.FAILED
    print(f"{directory}: whole{', once the next run has repaired this' if mending else ''}")
    return Exit.OK
