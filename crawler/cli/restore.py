"""``crawler restore FROM DIR``: creates a job from a backup, or from a crawl in a bucket."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crawler.base.figures import counted
from crawler.base.say import say
from crawler.cli.exit_codes import Exit
from crawler.inspect.crawl_backup import restore_crawl


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Create a job directory from a backup, or from the current state of a crawl in a store. The crawl resumes "
        "there from that state. The store is not changed."
    )
    parser.add_argument("backup", metavar="FROM", help="the backup, or the store of the crawl")
    parser.add_argument("job", type=Path, metavar="DIR", help="a missing or empty directory")
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    made = restore_crawl(arguments.backup, directory)
    print(f"{directory}: restored from {arguments.backup}, written by {made[0].snapshot.source}")
    missing = sum(each.snapshot.missing for each in made)
    if not missing:
        return Exit.OK
    say(
        sys.stderr,
        f"crawler: error: {arguments.backup} lacks {counted(missing, 'body', 'bodies')} that records refer to; the "
        f"rest is restored: `crawler verify {directory}` lists them, and `crawler repair {directory}` has them fetched "
        "again",
    )
    return Exit.FAILED
