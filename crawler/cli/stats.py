"""``crawler stats DIR``: prints the statistics of a job or a crawl of partitions, running or not."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit
from crawler.inspect.crawl_reader import stats_of
from crawler.progress.summary import summary


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    say_defaults(arguments.job)
    stats = stats_of(arguments.job)
    print(json.dumps(stats, indent=2) if arguments.json else summary(stats))
    return Exit.OK
