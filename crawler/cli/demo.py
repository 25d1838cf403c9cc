"""``crawler demo``: crawls an offline web that the program itself serves, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from crawler.base.clock import SteadyClock
from crawler.base.disk import RealDisk, replace_file
from crawler.cli import crawl
from crawler.cli.exit_codes import UsageError
from crawler.cli.options import add_crawl_options
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.directory import DEMO, holds_job
from crawler.tools.demo.web import DemoWeb, Place

MAGIC = "crawler-demo"
VERSION = 2
STATE = DEMO
DELAY = 0.2  # seconds: the pages take about half a minute, long enough to watch

Tables = Mapping[str, Mapping[str, Any]]

# Waits that take minutes or hours on the web take seconds here, so that they can be watched.
_QUICK: Tables = {
    "fetch": {"allow_private": True, "proxy": "direct", "connect_timeout": 4.0, "headers_timeout": 6.0},
    "politeness": {"delay": DELAY, "backoff_first": 1.0, "patience": "short"},
    "retry": {"tries": 2, "first_wait": 4.0},
    "recrawl": {"min_interval": 6.0, "mean_interval": 40.0, "max_interval": 600.0},
    "dashboard": {"listen": "0"},
}
# Makes the seen-set fill up and grow visibly. This setting is fixed when a job starts.
_SMALL: Tables = {"seen": {"capacity": 128}}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve a small web on loopback ports and crawl it, offline, until Ctrl-C: a guide to the web, and hosts that "
        "are slow, busy, dead or changing, whose pages are visited repeatedly. "
        "The ports are part of the URLs and are stored in the job directory, so the same command resumes the crawl."
    )
    parser.add_argument(
        "--once", action="store_true", help="visit each page once and end, instead of revisiting pages until Ctrl-C"
    )
    add_crawl_options(parser, job=Path("crawl-demo"))
    parser.set_defaults(run=run, quits_at_once=True)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    if arguments.once and "recrawl" in arguments:
        raise UsageError("--once and --recrawl exclude each other: visit each page once, or repeatedly")
    place = _remembered(directory)
    usual = arguments.config is None and "seen" not in arguments and not holds_job(directory)
    recrawl = {**_QUICK["recrawl"], "enabled": not arguments.once}
    arguments.beneath = {**_QUICK, **(_SMALL if usual else {}), "recrawl": recrawl}
    crawl.take_standard_output(arguments)
    settings = crawl.build_settings(arguments, (STATE, f"{STATE}.part"))
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot use job directory {directory}: {error.strerror}") from error
    site = DemoWeb(SteadyClock(), place)
    return crawl.crawl(arguments, settings, _seeds(site), _served(site, directory))


def _remembered(directory: Path) -> Place | None:
    """Return the ``Place`` at which an existing job's demo web was served; None for a new job. Raises UsageError."""
    path = directory / STATE
    try:
        return msgspec.convert(read_envelope(path, MAGIC, VERSION, str(path)), Place)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot use job directory {directory}: {error.strerror}") from error
    except (EnvelopeError, msgspec.ValidationError) as error:
        raise UsageError(f"{error}: choose another directory with --job") from error


@contextlib.asynccontextmanager
async def _served(site: DemoWeb, directory: Path) -> AsyncIterator[None]:
    known = site.place
    async with contextlib.AsyncExitStack() as stack:
        try:
            place = await stack.enter_async_context(site.served())
        except OSError as error:
            if known is None:
                raise
            raise UsageError(
                f"the demo in {directory} uses ports {', '.join(map(str, known.ports.values()))}: {error.strerror}; "
                "stop the process that uses them, or start another demo with --job"
            ) from error
        if known is None:
            state = msgspec.to_builtins(place)
            replace_file(RealDisk(), directory / STATE, encode_envelope(MAGIC, VERSION, state))
        yield


async def _seeds(site: DemoWeb) -> AsyncIterator[list[str]]:
    # The crawl asks for seeds only once it is running: by then the site has its ports.
    yield site.seeds
