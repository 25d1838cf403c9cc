"""``crawler explain DIR URL``: prints everything that a job knows about one URL."""

from __future__ import annotations

import argparse
import json

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.named_urls import named_urls
from crawler.cli.subject import add_subject
from crawler.inspect.explanation import explain_in
from crawler.service.explanation_text import explanation_lines
from crawler.url.urls.canonicaliser import Canonicaliser


def add_options(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    url = named_urls([arguments.url], Canonicaliser(()))[0].text
    found = explain_in(arguments.job, url)
    if arguments.json:
        print(json.dumps(found.as_json(), indent=2))
    else:
        for what, text in explanation_lines(found):
            print(f"{what}: {text}" if text else what)
    return Exit.OK if found.damage is None else Exit.FAILED
