"""``crawler stats DIR``: prints the statistics of a job or a partitioned crawl, running or not."""

from __future__ import annotations

import argparse
import json

from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit
from crawler.cli.subject import add_subject_or_engine, at_engine, engine_crawl
from crawler.inspect.crawl_reader import stats_of
from crawler.service.progress.summary import summary


def add_options(parser: argparse.ArgumentParser) -> None:
    add_subject_or_engine(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--all", action="store_true", help="all counts, not only those that fit on one screen")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    if at_engine(arguments):
        with engine_crawl(arguments) as view:
            stats = view.stats()
    else:
        say_defaults(arguments.job)
        stats = stats_of(arguments.job)
    print(json.dumps(stats, indent=2) if arguments.json else summary(stats, everything=arguments.all))
    return Exit.OK
