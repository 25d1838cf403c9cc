"""``crawler repair DIR``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crawler.cli.damaged_job import failed
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.integrity_text import change_text, finding_text
from crawler.clock import SteadyClock
from crawler.integrity.change import Change
from crawler.integrity.finding import is_fault
from crawler.integrity.repairer import repair_job
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.settings import SettingsError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a damaged job whole again, from what the disk still holds. It reports each change and moves "
        "what it replaces to DIR/damaged-N. A whole job is not changed."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    changes: list[Change] = []

    def tell(change: Change) -> None:
        changes.append(change)
        if not arguments.json:
            print(f"{directory}: {change_text(change)}", flush=True)

    try:
        repaired = repair_job(directory, SteadyClock()(), tell)
    except JobError as error:
        raise UsageError(str(error)) from error
    except (SettingsError, *DAMAGE) as error:
        return failed(directory, f"cannot be repaired: {error}", as_json=arguments.json)
    if arguments.json:
        findings = [finding.as_json() for finding in repaired.left]
        done = [change.as_json() for change in changes]
        print(json.dumps({"was_whole": repaired.was_whole, "changes": done, "findings": findings}, indent=2))
    elif repaired.was_whole:
        print(f"{directory}: whole, nothing was changed")
    else:
        for finding in repaired.left:
            print(f"{directory}: still wrong: {finding_text(finding)}")
    return Exit.FAILED if any(map(is_fault, repaired.left)) else Exit.OK
