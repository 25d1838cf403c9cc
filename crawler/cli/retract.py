"""``crawler retract DIR``: lists the pages that a job holds but that may no longer be used."""

from __future__ import annotations

import argparse
import json

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.options import purposes
from crawler.cli.subject import add_subject
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.record_stream import retracted


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the URLs whose pages a job, running or not, holds although the sites now refuse a use of those pages. "
        "Nothing is changed."
    )
    add_subject(parser)
    parser.add_argument("--purpose", type=purposes, required=True, metavar="NAME,...", help="the uses")
    parser.add_argument("--json", action="store_true", help="the records of these pages")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    found = retracted(crawl_partitions(arguments.job).jobs, arguments.purpose)
    texts = (json.dumps(each, separators=(",", ":")) if arguments.json else str(each["url"]) for each in found)
    for text in dict.fromkeys(texts):
        print(text)
    return Exit.OK
