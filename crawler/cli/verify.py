"""``crawler verify DIR`` checks all checksums and counts of a job."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from crawler.cli.damaged_job import guarded, number_of, place_of
from crawler.cli.exit_codes import Exit
from crawler.cli.integrity_text import finding_text
from crawler.cli.subject import add_subject, directory_of, in_directory
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition
from crawler.inspect.integrity.crawl_verifier import verify_crawl
from crawler.inspect.integrity.finding import Finding, is_fault
from crawler.inspect.integrity.verifier import verify_job


def add_options(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    directory = directory_of(arguments, "run `crawler verify DIR` there: each checks the partitions that it has")
    if arguments.json:
        found = list(_findings(directory))
        whole = not any(is_fault(finding) for _, finding in found)
        findings = [finding.as_json() | number_of(partition) for partition, finding in found]
        print(json.dumps({"whole": whole, "findings": findings}, indent=2))
        return Exit.OK if whole else Exit.FAILED
    faults = mending = 0
    for partition, finding in _findings(directory):
        print(f"{place_of(directory, partition)}: {finding_text(finding)}")
        faults += is_fault(finding)
        mending += not is_fault(finding)
    if faults:
        return Exit.FAILED
    print(f"{directory}: whole{', once the next run has mended this' if mending else ''}")
    return Exit.OK


def _findings(directory: Path) -> Iterator[tuple[Partition | None, Finding]]:
    """What is wrong, and with which partition of a crawl."""
    match in_directory(directory):
        case CrawlPartitions() as crawl:
            yield from verify_crawl(crawl)
        case job:
            yield from ((None, finding) for finding in verify_job(job))
