"""``crawler bench``: measures what a crawl costs on this machine, and runs the scripts of ``benchmarks/``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

from crawler.cli.exit_codes import Exit, UsageError
from crawler.tools.bench.child import module_environment
from crawler.tools.bench.scripts import STUDIES, Script, scripts
from crawler.tools.bench.synthetic_web import MOST_HOSTS, MOST_PAGES, Mode, Serving, Shape

_PAGES, _HOSTS = 2_000, 20
_MOST_SEED = 2**63 - 1
_MOST_ROUNDS = 100
_MOST_SIZE = 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a benchmark and print a table. `crawl` and `web` are part of the package; the others are the scripts in "
        "benchmarks/ of a checkout of the source. `crawler bench NAME --help` lists the options of a script."
    )
    parser.set_defaults(run=lambda _: _list(parser))
    names = parser.add_subparsers(metavar="NAME")
    _add_crawl(names.add_parser("crawl", help="a crawl of a synthetic web, beside the floor and its peers (1 min)"))
    _add_web(names.add_parser("web", help="serves the synthetic web of `crawl`, for crawls and profilers of your own"))
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


def _add_crawl(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Crawl a synthetic web, which is served by other processes of this machine, and compare what was found with "
        "what there is. Beside it: the same pages with aiohttp and a parser of HTML alone (the floor), and with Scrapy "
        "and Crawlee if they are installed."
    )
    _add_shape(parser)
    add = parser.add_argument
    add("--rounds", type=_number(1, _MOST_ROUNDS), default=1, metavar="N", help="runs of each, interleaved (1)")
    add("--warc", action="store_true", help="our crawl writes a web archive too")
    add("--no-peers", action="store_true", help="leave out Scrapy and Crawlee")
    add("--plot", type=Path, metavar="FILE", help="write a plot to FILE, as SVG")
    add("--json", action="store_true", help="print one line of JSON instead of the table")
    parser.set_defaults(run=_crawl)


def _add_web(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve the synthetic web that `crawl` crawls, on addresses of this machine alone, until Ctrl-C or SIGTERM."
    )
    _add_shape(parser)
    text = "write the first page of every host to FILE, once all can be reached"
    parser.add_argument("--seeds", type=Path, required=True, metavar="FILE", help=text)
    parser.set_defaults(run=_web)


def _add_shape(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pages", type=_number(1, MOST_PAGES), default=_PAGES, metavar="N", help=f"pages of the web ({_PAGES:,})")
    add("--hosts", type=_number(1, MOST_HOSTS), default=_HOSTS, metavar="N", help=f"hosts of the web ({_HOSTS})")
    add("--seed", type=_number(0, _MOST_SEED), default=0, metavar="S", help="another seed is another web (0)")
    add(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=Mode.WEB.value,
        help="sites that link to each other (web), or chains of pages with one link each, across hosts (chains)",
    )
    add("--page-size", type=_number(1, _MOST_SIZE), default=0, metavar="BYTES", help="all pages are as large (as real)")
    add("--https", action="store_true", help="serve over TLS 1.3; openssl makes the certificates")
    text = "the share of requests that need a connection of their own: 0, 1/3, 1 (0)"
    add("--new-connections", type=_each, default=0, metavar="SHARE", help=text)
    add("--full-handshakes", action="store_true", help="with --https: the servers resume no TLS sessions")


def _list(bench: argparse.ArgumentParser) -> int:
    bench.print_help()
    return Exit.OK


def _escaped(text: str) -> str:
    """Escape percent signs, which argparse would fill in."""
    return text.replace("%", "%%")


def _number(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range."""

    def parse(word: str) -> int:
        digits = word.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()):
            raise argparse.ArgumentTypeError(f"{word!r} is not a whole number")
        if not least <= int(word) <= most:
            raise argparse.ArgumentTypeError(f"must be between {least:,} and {most:,}, not {word}")
        return int(word)

    return parse


def _each(word: str) -> int:
    """Return after how many requests a server closes a connection; 0: never."""
    try:
        share = Fraction(word)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if share == 0:
        return 0
    if share.numerator != 1:
        raise argparse.ArgumentTypeError(f"must be 0, 1, or one of so many, as 1/3: not {word!r}")
    return share.denominator


def _crawl(arguments: argparse.Namespace) -> int:
    from crawler.tools.bench.bench_crawl import Plan, bench_crawl  # noqa: PLC0415, other benchmarks do not need it

    shape = _shape(arguments)
    _check_directory("--plot", arguments.plot)
    plan = Plan(shape, arguments.rounds, not arguments.no_peers, arguments.plot, arguments.json, arguments.warc)
    return Exit.OK if bench_crawl(plan) else Exit.FAILED


def _web(arguments: argparse.Namespace) -> int:
    from crawler.tools.bench.bench_crawl import serve_web  # noqa: PLC0415, other benchmarks do not need it

    shape = _shape(arguments)
    _check_directory("--seeds", arguments.seeds)
    serve_web(shape, arguments.seeds)
    return Exit.OK


def _shape(arguments: argparse.Namespace) -> Shape:
    """Return the shape of the web, at a port that is free. Raises UsageError."""
    pages, hosts = arguments.pages, arguments.hosts
    if pages < hosts:
        raise UsageError(f"--pages {pages}: a web has at least one page a host, and --hosts is {hosts}")
    if arguments.full_handshakes and not arguments.https:
        raise UsageError("--full-handshakes: there are no handshakes without --https")
    serving = Serving(arguments.https, arguments.new_connections, not arguments.full_handshakes)
    return Shape(pages, hosts, arguments.seed, Mode(arguments.mode), 0, arguments.page_size, serving)


def _check_directory(flag: str, path: Path | None) -> None:
    """Raise UsageError if a file cannot be made because its directory does not exist, or it is a directory itself."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{flag} {path}: its directory does not exist")
    if path.is_dir():
        raise UsageError(f"{flag} {path}: this is a directory, not a file")


def _run_script(script: Script, arguments: argparse.Namespace) -> int:
    command = [sys.executable, str(script.path), *arguments.words]
    return subprocess.run(command, check=False, env=module_environment()).returncode


def _say_missing(name: str, _: argparse.Namespace) -> int:
    raise UsageError(
        f"{name} is a script in benchmarks/ of the source, and this package is installed without it: run "
        f"`python -m crawler bench {name}` in a checkout"
    )
