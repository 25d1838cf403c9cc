"""``crawler canon``: canonicalises the URLs on standard input."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from crawler.base.settings.load import SettingsError, settings_from
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.options import lay_flags_over
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.whatwg import Rejected


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = 'Print one JSON object per line: {"input", "href", "key"}, or {"input", "error"} if invalid.'
    parser.add_argument("--base", metavar="URL", help="resolve against this URL")
    parser.add_argument("--config", type=Path, metavar="FILE", help="take canonical.rules from this TOML file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    tables, source = lay_flags_over(arguments.config, {})
    try:
        canonicaliser = Canonicaliser(settings_from(tables, source).canonical.rules)
    except (SettingsError, ValueError) as error:
        raise UsageError(str(error)) from error
    base: str | None = None
    if arguments.base is not None:
        url = canonicaliser.canonicalise(arguments.base)
        if isinstance(url, Rejected):
            raise UsageError(f"--base {arguments.base!r}: {url.reason}")
        base = url.href
    # Read bytes, and end lines only at a line feed: a carriage return is part of the URL.
    for line in sys.stdin.buffer:
        text = line.removesuffix(b"\n").decode("utf-8", "replace")
        url = canonicaliser.canonicalise(text, base)
        if isinstance(url, Rejected):
            row = {"input": text, "error": url.reason}
        else:
            row = {"input": text, "href": url.href, "key": url.key}
        sys.stdout.write(json.dumps(row, separators=(",", ":")) + "\n")
    sys.stdout.flush()
    return Exit.OK
