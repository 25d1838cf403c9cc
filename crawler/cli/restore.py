"""``crawler restore FROM DIR``: makes a job from a backup."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crawler.base.figures import counted, noun
from crawler.base.say import say
from crawler.cli.exit_codes import Exit
from crawler.inspect.backup.crawl_backup import restore_crawl
from crawler.inspect.backup.restoration import Restored


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a job directory from a backup. The crawl resumes there from the moment of the backup. The backup stays."
    )
    parser.add_argument("backup", type=Path, metavar="FROM", help="a directory that `crawler backup` has written")
    parser.add_argument("job", type=Path, metavar="DIR", help="a missing or empty directory")
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    made = list(restore_crawl(arguments.backup, directory))
    return max([_said(arguments.backup, each.directory, restored) for each, restored in made], default=Exit.OK)


def _said(backup: Path, directory: Path, restored: Restored) -> int:
    """Say what was restored, and what was not; the exit code."""
    manifest, written, damaged = restored
    print(f"{directory}: restored from backup {manifest.number} of {manifest.source.directory}")
    if not written.missing and not damaged:
        return Exit.OK
    lacks = f"lacks {counted(written.missing, 'body', 'bodies')} that records name" if written.missing else ""
    holds = f"holds {counted(damaged, 'body', 'bodies')} that {noun(damaged, 'is', 'are')} damaged" if damaged else ""
    say(
        sys.stderr,
        f"crawler: error: {backup} {' and '.join(filter(None, (lacks, holds)))}; all else is restored: "
        f"`crawler verify {directory}` lists what is lost, and `crawler repair {directory}` has it fetched again",
    )
    return Exit.FAILED
