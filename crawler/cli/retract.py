"""``crawler retract DIR``: lists the pages that a job holds but that may no longer be used."""

from __future__ import annotations

import argparse

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.options import purposes
from crawler.cli.subject import add_subject
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.record_stream import retracted


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "List the URLs whose pages a job holds although their sites now refuse a use of them."
    add_subject(parser)
    parser.add_argument("--purpose", type=purposes, required=True, metavar="NAME,...", help="the uses")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    for href in retracted(crawl_partitions(arguments.job).jobs, arguments.purpose):
        print(href)
    return Exit.OK
