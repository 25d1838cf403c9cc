"""``crawler backup DIR TO``: copies a job, even a running one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.figures import counted
from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.inspect.backup.back_up import BackedUp
from crawler.inspect.backup.crawl_backup import back_up_crawl
from crawler.inspect.backup.layout import BackupError
from crawler.inspect.crawl_partitions import holds_crawl
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
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory, to = arguments.job, arguments.to
    refusals: list[Refused] = []

    def take(job: Path) -> None:
        refused = run_interruptible(lambda: request_snapshot(job))
        if refused is not None:
            refusals.append(refused)
            raise BackupError(refused.text)

    try:
        made = list(back_up_crawl(directory, to, take, SteadyClock()()))
    except BackupError as error:
        if refusals:
            raise FailedError(f"error: no backup was made: {error}") from error
        raise UsageError(str(error)) from error
    except OSError as error:
        text = " ".join(str(error).split())
        before = "" if holds_crawl(directory) else f"; an earlier backup in {to} is unchanged"
        raise FailedError(f"error: no backup was made: {text}{before}") from error
    print(json.dumps(_as_json(made), indent=2) if arguments.json else _as_text(to, made))
    return Exit.OK


def _as_json(made: Sequence[BackedUp]) -> dict[str, int]:
    """Of a job, or the sums of all partitions."""
    return {
        "number": max(each.manifest.number for each in made),
        "bytes": sum(each.size for each in made),
        "written_files": sum(each.written.files for each in made),
        "written_bytes": sum(each.written.bytes for each in made),
        "urls_admitted": sum(each.counters.urls_admitted for each in made),
        "urls_pending": sum(each.counters.pending for each in made),
    }


def _as_text(to: Path, made: Sequence[BackedUp]) -> str:
    told = _as_json(made)
    urls = f"{counted(told['urls_admitted'], 'URL')} admitted, {told['urls_pending']:,} pending"
    size = f"{told['bytes']:,} bytes, of which {told['written_bytes']:,} were copied"
    return f"{to}: backup {told['number']}: {urls}; {size}"
