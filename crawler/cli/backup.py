"""``crawler backup DIR TO``: copies a job, even a running one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from msgspec.structs import asdict

from crawler.base.clock import SteadyClock
from crawler.base.figures import counted
from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, FailedError
from crawler.cli.interruptible import run_interruptible
from crawler.inspect.crawl_backup import back_up
from crawler.job.bucket.objects import BucketDown
from crawler.service.snapshot_request import request_snapshot


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy a job, running or not, as of one moment. If TO holds an earlier backup of the job, only new data is "
        "copied. `crawler restore` makes a job from the backup."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("to", metavar="TO", help="a directory, or s3://BUCKET/PREFIX, gs://, az://")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory, to = arguments.job, arguments.to

    def take(job: Path) -> None:
        refused = run_interruptible(lambda: request_snapshot(job))
        if refused is not None:
            raise FailedError(f"error: no backup was made: {refused.text}")

    try:
        made = back_up(directory, to, take, SteadyClock()())
    except (BucketDown, OSError) as error:
        text = " ".join(str(error).split())
        raise FailedError(f"error: no backup was made: {text}; an earlier backup in {to} is unchanged") from error
    if arguments.json:
        print(json.dumps(asdict(made), indent=2))
        return Exit.OK
    urls = f"{counted(made.urls_admitted, 'URL')} admitted, {made.urls_pending:,} pending"
    print(f"{to}: backup {made.number}: {urls}; {made.size:,} bytes, {made.bytes:,} of them new")
    return Exit.OK
