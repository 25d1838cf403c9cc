"""``crawler repair DIR``: repairs a damaged job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.figures import counted
from crawler.base.settings.load import SettingsError
from crawler.cli.damaged_job import failed
from crawler.cli.exit_codes import Exit
from crawler.inspect.crawl_partitions import Partition, holds_crawl
from crawler.inspect.integrity.finding import Change
from crawler.inspect.integrity.repairer import repair_crawl
from crawler.job.stored_errors import DAMAGE


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Repair a damaged job with the data that is still on disk. The command reports each change and moves "
        "replaced files to DIR/damaged-N. An intact job is not changed. In a partitioned crawl, each partition is "
        "repaired."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    changes: list[tuple[Partition, Change]] = []

    def tell(partition: Partition, change: Change) -> None:
        changes.append((partition, change))
        if not arguments.json:
            print(f"{partition.directory}: {change.text}", flush=True)

    try:
        done, left = repair_crawl(directory, SteadyClock()(), tell)
    except (SettingsError, *DAMAGE) as error:
        raise failed(directory, f"cannot be repaired: {error}") from error
    repaired = sum(not each.was_whole for each in done)
    if arguments.json:
        told = {
            "was_whole": not repaired and not left,
            "changes": [change.as_json() | partition.as_json for partition, change in changes],
            "findings": [finding.as_json() | partition.as_json for partition, finding in left],
        }
        print(json.dumps(told, indent=2))
    else:
        for partition, finding in left:
            print(f"{partition.directory}: still wrong: {finding.text}")
        if holds_crawl(directory):
            whole = "whole, " if not left else ""
            print(f"{directory}: {whole}{repaired} of {counted(len(done), 'partition')} had to be repaired")
        elif not repaired:
            print(f"{directory}: intact; nothing was changed")
    return Exit.FAILED if any(finding.is_fault for _, finding in left) else Exit.OK
