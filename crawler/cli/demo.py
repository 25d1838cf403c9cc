"""``crawler demo``: crawls pages offline that the program serves itself."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from crawler.checkpoint import EnvelopeError, encode_envelope, read_envelope
from crawler.cli import crawl
from crawler.cli.exit_codes import UsageError
from crawler.cli.options import add_crawl_options
from crawler.demo import DemoSite
from crawler.disk import RealDisk, replace_file

MAGIC = "crawler-demo"
VERSION = 1
STATE = "demo.json"
PAGES = "demo-pages"
HOSTS = 4
DELAY = 0.2  # seconds: 200 pages on four hosts take about ten seconds, long enough to watch


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve the standard library's documentation on loopback ports and crawl it. The ports are "
        "part of the URLs and are kept in the job directory, so that the same command resumes the crawl."
    )
    add_crawl_options(parser, job=Path("crawl-demo"))
    parser.set_defaults(run=run, quits_at_once=True)


def run(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    given.setdefault("allow_private", True)
    given.setdefault("delay", DELAY)
    given.setdefault("host_key", "origin")  # each port stands for a site
    directory: Path = arguments.job
    ports = _remembered(directory)
    given.setdefault("dashboard", "0")
    crawl.take_standard_output(arguments)
    settings, _ = crawl.build_settings(arguments, (STATE, f"{STATE}.part", PAGES))
    directory.mkdir(parents=True, exist_ok=True)
    site = DemoSite(directory / PAGES)
    return crawl.crawl(arguments, settings, _seeds(site), _served(site, directory, ports))


def _remembered(directory: Path) -> list[int]:
    """Return the site's ports of a job that has started; empty for a new one. Raises UsageError."""
    path = directory / STATE
    try:
        return [int(port) for port in read_envelope(path, MAGIC, VERSION, str(path))["ports"]]
    except FileNotFoundError:
        return []
    except (EnvelopeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{error}: choose another directory with --job") from error


@contextlib.asynccontextmanager
async def _served(site: DemoSite, directory: Path, ports: list[int]) -> AsyncIterator[None]:
    try:
        bound = await site.start(ports or None, HOSTS)
    except OSError as error:
        if ports:
            raise UsageError(
                f"the demo in {directory} uses ports {', '.join(map(str, ports))}: {error.strerror}; stop whatever "
                "uses them, or start another demo with --job"
            ) from error
        raise
    try:
        if not ports:
            replace_file(RealDisk(), directory / STATE, encode_envelope(MAGIC, VERSION, {"ports": bound}))
        yield
    finally:
        await site.stop()


async def _seeds(site: DemoSite) -> AsyncIterator[list[str]]:
    # Called once the crawl runs, because the site has its ports by then.
    yield site.seeds
