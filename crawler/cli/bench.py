"""``crawler bench``: a synthetic web, and the cost of crawling it on this machine."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from crawler.base.say import say
from crawler.base.units import BYTES
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.options import quantity, whole_number
from crawler.service.ending_signals import ending_signals
from crawler.service.progress.text_table import text_table
from crawler.tools.bench.process_cost import module_environment
from crawler.tools.bench.synthetic_crawl import CrawlFailedError, Measured, WebServers, measure, ours
from crawler.tools.bench.synthetic_web import Mode, Shape, SyntheticWeb

_PAGES, _HOSTS = 2_000, 20
_HEADS = ("pages", "missing", "twice", "seconds", "pages/s", "CPU us/page", "ms", "ms, 95%", "MiB")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Measure a crawl of a synthetic web, or serve that web. The other benchmarks are scripts in benchmarks/ of a "
        "checkout of the source."
    )
    parser.set_defaults(run=lambda _: _list(parser))
    names = parser.add_subparsers(metavar="NAME")
    _add_crawl(names.add_parser("crawl", help="crawl a synthetic web, and check the result (20 s)"))
    _add_web(names.add_parser("web", help="serve the synthetic web of `crawl`, for your own crawls and profilers"))


def _add_crawl(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Crawl a synthetic web, served by other processes on this machine, and compare the result with the web's "
        "actual content."
    )
    add_shape(parser)
    parser.add_argument("--warc", action="store_true", help="write a web archive too")
    parser.add_argument("--json", action="store_true", help="print one line of JSON instead of the table")
    parser.set_defaults(run=_crawl)


def _add_web(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve the synthetic web that `crawl` crawls, only on addresses of this machine, until Ctrl-C or SIGTERM."
    )
    add_shape(parser)
    text = "write the URL of every host's first page to FILE once all are reachable"
    parser.add_argument("--seeds", type=Path, required=True, metavar="FILE", help=text)
    parser.set_defaults(run=_web)


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the synthetic web."""
    add = parser.add_argument
    add("--pages", type=whole_number, default=_PAGES, metavar="N", help=f"pages of the web ({_PAGES:,})")
    add("--hosts", type=whole_number, default=_HOSTS, metavar="N", help=f"hosts of the web ({_HOSTS})")
    add("--seed", type=whole_number, default=0, metavar="S", help="seed of the random web (0)")
    add(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=Mode.WEB.value,
        help="sites that link to each other (web), or chains of pages with one link each, across hosts (chains)",
    )
    add("--page-size", type=quantity(BYTES), default=0, metavar="SIZE", help="size of each page (realistic sizes)")


def shape_of(arguments: argparse.Namespace) -> Shape:
    """Return the shape of the synthetic web, which will be served at a free port. Raises UsageError."""
    mode = Mode(arguments.mode)
    shape = Shape(arguments.pages, arguments.hosts, arguments.seed, mode, port=0, size=arguments.page_size)
    try:
        SyntheticWeb(shape)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return shape


def _list(bench: argparse.ArgumentParser) -> int:
    bench.print_help()
    return Exit.OK


def _crawl(arguments: argparse.Namespace) -> int:
    shape = shape_of(arguments)
    contender = ours("--output", "warc") if arguments.warc else ours()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-crawl-") as home:
            measured = measure(contender, shape, Path(home), module_environment())
    except CrawlFailedError as error:
        raise FailedError(f"error: {error}") from error
    if arguments.json:
        print(json.dumps(figures(shape, measured)))
    else:
        print(f"{shape.pages:,} pages on {shape.hosts:,} hosts, {shape.mode.value}, seed {shape.seed}\n")
        print(*text_table(_HEADS, [_row(measured)]), sep="\n")
    verdict = measured.verdict
    if wrong := verdict.mistakes + measured.requested.private:
        where = f"{verdict.missing:,} missing, {verdict.twice:,} twice, {verdict.unexpected:,} unexpected, "
        where += f"{verdict.wrong:,} with a wrong status, {measured.requested.private:,} that robots.txt disallows"
        say(sys.stderr, f"crawler: error: the crawl differs from the web in {wrong:,} URLs: {where}")
    return Exit.FAILED if wrong else Exit.OK


def figures(shape: Shape, measured: Measured) -> dict[str, Any]:
    """Return the figures for JSON output."""
    web = {"pages": shape.pages, "hosts": shape.hosts, "seed": shape.seed, "mode": shape.mode.value}
    return {
        "web": {**web, "page_size": shape.size},
        **to_builtins(measured.verdict),
        "seconds": measured.cost.wall,
        "pages_a_second": measured.pages_a_second,
        "cpu": measured.microseconds,
        "latency": to_builtins(measured.latency),
        "rss": measured.cost.rss,
        "refused": measured.requested.refused,
        "private": measured.requested.private,
    }


def _row(measured: Measured) -> list[str]:
    verdict, cost, latency = measured.verdict, measured.cost, measured.latency
    counts = (verdict.pages, verdict.missing, verdict.twice)
    more = (measured.pages_a_second, measured.microseconds, latency.median, latency.most, cost.rss)
    return [*(f"{each:,}" for each in counts), f"{cost.wall:.1f}", *(f"{each:,.0f}" for each in more)]


def _web(arguments: argparse.Namespace) -> int:
    shape, seeds = shape_of(arguments), arguments.seeds
    if not seeds.absolute().parent.is_dir() or seeds.is_dir():
        raise UsageError(f"--seeds {seeds}: no file can be written there")
    ended = threading.Event()
    with ending_signals(lambda _: ended.set()), WebServers(shape) as servers:
        web = SyntheticWeb(servers.shape)
        # A process that waits for the file must find it complete.
        unfinished = seeds.with_name(f".{seeds.name}.new")
        unfinished.write_text("".join(f"{url}\n" for url in web.seeds), "ascii")
        unfinished.replace(seeds)
        print(f"{shape.pages:,} pages on {shape.hosts:,} hosts, from {web.seeds[0]} on, until Ctrl-C", flush=True)
        ended.wait()
    return Exit.OK
