"""``crawler explain DIR URL``: prints everything that a job knows of one URL."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.named_urls import completed_urls
from crawler.inspect.crawl_explained import explain_in_crawl, explain_in_partition
from crawler.inspect.crawl_partitions import crawl_partitions, holds_crawl
from crawler.service.explanation_text import explanation_lines


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    url = completed_urls([arguments.url])[0]
    if holds_crawl(arguments.job):
        found = explain_in_crawl(crawl_partitions(arguments.job), url)
    else:
        found = explain_in_partition(arguments.job, url)
    if arguments.json:
        print(json.dumps(found.as_json(), indent=2))
    else:
        for what, text in explanation_lines(found):
            print(f"{what}: {text}" if text else what)
    return Exit.OK if found.damage is None else Exit.FAILED
