"""``crawler bench``: measures what a crawl costs on this machine, and runs the scripts of ``benchmarks/``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from crawler.bench.child import module_environment
from crawler.bench.machine import describe_machine
from crawler.bench.made_crawl import MadeCrawlError, measure_crawl
from crawler.bench.made_pages import CHAPTER, MADE_HOSTS, MADE_PAGES
from crawler.bench.scripts import STUDIES, Script, scripts
from crawler.cli.exit_codes import Exit, UsageError
from crawler.progress.text_table import text_table

_PACKAGES = ("aiohttp", "ada-url", "selectolax", "mmh3", "numpy", "bitarray", "rocksdict")
_LEAST = MADE_HOSTS * CHAPTER
_MOST = 100_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a benchmark and print a table. `crawl` is part of the package; the others are the scripts in "
        "benchmarks/ of a checkout of the source. `crawler bench NAME --help` lists the options of a script."
    )
    parser.set_defaults(run=lambda _: _list(parser))
    names = parser.add_subparsers(metavar="NAME")
    crawl = names.add_parser("crawl", help="CPU time, pages per second and memory of a crawl of generated pages (10 s)")
    crawl.add_argument(
        "--pages", type=_pages, default=MADE_PAGES, metavar="N", help=f"number of generated pages ({MADE_PAGES:,})"
    )
    crawl.set_defaults(run=_crawl)
    found = list(scripts())
    for script in found:
        # The script parses its own arguments, including --help.
        words = names.add_parser(script.name, help=_escaped(script.about), add_help=False, prefix_chars="\0")
        words.add_argument("words", nargs=argparse.REMAINDER)
        words.set_defaults(run=partial(_run_script, script))
    for name in STUDIES if not found else ():
        missing = names.add_parser(name, help="needs a checkout of the source", add_help=False, prefix_chars="\0")
        missing.add_argument("words", nargs=argparse.REMAINDER)
        missing.set_defaults(run=partial(_say_missing, name))


def _list(bench: argparse.ArgumentParser) -> int:
    bench.print_help()
    return Exit.OK


def _escaped(text: str) -> str:
    """Escape percent signs, which argparse would fill in."""
    return text.replace("%", "%%")


def _pages(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number")
    if not _LEAST <= int(word) <= _MOST:
        raise argparse.ArgumentTypeError(f"must be between {_LEAST} and {_MOST:,}, not {word}")
    return int(word)


def _crawl(arguments: argparse.Namespace) -> int:
    for line in describe_machine(_PACKAGES):
        print(line)
    print(f"web       {arguments.pages:,} generated pages on {MADE_HOSTS} hosts of this machine\n", flush=True)
    with tempfile.TemporaryDirectory() as home:
        try:
            made = measure_crawl(Path(home), arguments.pages)
        except MadeCrawlError as error:
            print(f"crawler: error: {error}", file=sys.stderr)
            return Exit.FAILED
    row = (
        f"{made.pages:,}",
        f"{made.repeated:,}",
        f"{made.cost.wall:.1f}",
        f"{made.pages_a_second:,.0f}",
        f"{made.milliseconds:.2f}",
        f"{made.cost.rss:,.0f}",
    )
    print("\n".join(text_table(("pages", "repeated", "seconds", "pages/s", "CPU ms/page", "MiB at most"), [row])))
    return Exit.OK


def _run_script(script: Script, arguments: argparse.Namespace) -> int:
    command = [sys.executable, str(script.path), *arguments.words]
    return subprocess.run(command, check=False, env=module_environment()).returncode


def _say_missing(name: str, _: argparse.Namespace) -> int:
    raise UsageError(
        f"{name} is a script in benchmarks/ of the source, and this package is installed without it: run "
        f"`python -m crawler bench {name}` in a checkout"
    )
