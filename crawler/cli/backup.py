"""``crawler backup DIR TO``: copies a job, even a running one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from crawler.backup.back_up import BackedUp, back_up
from crawler.backup.layout import BackupError
from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.clock import SteadyClock
from crawler.metrics import counted
from crawler.progress.say import say
from crawler.service.commands import Refused
from crawler.service.snapshot_request import request_snapshot


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy a job, running or not, to the directory TO, as it is at one moment. If TO holds an earlier backup of the "
        "job, only what is new is copied. `crawler restore` makes a job from the backup."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("to", type=Path, metavar="TO", help="a missing or empty directory, or an earlier backup")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    directory, to = arguments.job, arguments.to
    refusals: list[Refused] = []

    def take() -> None:
        refused = run_interruptible(lambda: request_snapshot(directory))
        if refused is not None:
            refusals.append(refused)
            raise BackupError(refused.text)

    try:
        made = back_up(directory, to, take, SteadyClock()())
    except BackupError as error:
        if refusals:
            say(sys.stderr, f"crawler: error: no backup was made: {error}")
            return Exit.FAILED
        raise UsageError(str(error)) from error
    except OSError as error:
        text = " ".join(str(error).split())
        say(sys.stderr, f"crawler: error: no backup was made: {text}; an earlier backup in {to} is unchanged")
        return Exit.FAILED
    print(json.dumps(_as_json(made), indent=2) if arguments.json else _as_text(to, made))
    return Exit.OK


def _as_json(made: BackedUp) -> dict[str, int]:
    return {
        "number": made.manifest.number,
        "bytes": made.size,
        "written_files": made.written.files,
        "written_bytes": made.written.bytes,
        "urls_admitted": made.counters.admitted,
        "urls_pending": made.counters.pending,
    }


def _as_text(to: Path, made: BackedUp) -> str:
    urls = f"{counted(made.counters.admitted, 'URL')} admitted, {made.counters.pending:,} pending"
    return (
        f"{to}: backup {made.manifest.number}: {urls}; {made.size:,} bytes, of which {made.written.bytes:,} were copied"
    )
