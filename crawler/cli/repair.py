"""``crawler repair DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawler.cli.exit_codes import Exit, UsageError
from crawler.clock import SteadyClock
from crawler.integrity.repairer import repair_job
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.settings import SettingsError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a damaged job whole again, from what the disk still holds. Says what was done; what is "
        "replaced is moved to DIR/damaged-N. A job that is whole is not changed."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    try:
        left = repair_job(directory, SteadyClock()(), lambda line: print(f"{directory}: {line}", flush=True))
    except JobError as error:
        raise UsageError(str(error)) from error
    except (SettingsError, *DAMAGE) as error:
        print(f"{directory}: cannot be repaired: {error}")
        return Exit.FAILED
    for fault in left:
        print(f"{directory}: left: {fault}")
    return Exit.FAILED if left else Exit.OK
