"""``crawler explain DIR URL``: all that a job knows of one URL."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.errors import Exit
from crawler.inspect.explanation import explain_url


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("url", metavar="URL")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    for line in explain_url(arguments.job, arguments.url):
        print(line)
    return Exit.OK
