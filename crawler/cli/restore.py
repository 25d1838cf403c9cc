"""``crawler restore FROM DIR``: makes a job from a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawler.backup.layout import BackupError
from crawler.backup.restoration import restore
from crawler.cli.exit_codes import Exit, UsageError
from crawler.job.directory import JobError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a job directory from a backup. The crawl resumes there from the moment of the backup. The backup stays."
    )
    parser.add_argument("backup", type=Path, metavar="FROM", help="a directory that `crawler backup` has written")
    parser.add_argument("job", type=Path, metavar="DIR", help="a missing or empty directory")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    try:
        manifest, _ = restore(arguments.backup, directory)
    except (BackupError, JobError) as error:
        raise UsageError(str(error)) from error
    print(f"{directory}: restored from backup {manifest.number} of {manifest.source.directory}")
    return Exit.OK
