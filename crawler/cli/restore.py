"""``crawler restore FROM DIR``: makes a job from a backup."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crawler.backup.layout import BackupError
from crawler.backup.restoration import restore
from crawler.cli.exit_codes import Exit, UsageError
from crawler.job.directory import JobError
from crawler.metrics import counted, noun
from crawler.progress.say import say


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
        manifest, written, damaged = restore(arguments.backup, directory)
    except (BackupError, JobError) as error:
        raise UsageError(str(error)) from error
    print(f"{directory}: restored from backup {manifest.number} of {manifest.source.directory}")
    if not written.missing and not damaged:
        return Exit.OK
    lacks = f"lacks {counted(written.missing, 'body', 'bodies')} that records name" if written.missing else ""
    holds = f"holds {counted(damaged, 'body', 'bodies')} that {noun(damaged, 'is', 'are')} damaged" if damaged else ""
    say(
        sys.stderr,
        f"crawler: error: {arguments.backup} {' and '.join(filter(None, (lacks, holds)))}; all else is restored: "
        f"`crawler verify {directory}` lists what is lost, and `crawler repair {directory}` has it fetched again",
    )
    return Exit.FAILED
