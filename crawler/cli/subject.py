"""Decides what a command examines: a job, a partitioned crawl in a directory, or a partitioned crawl at an engine."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from crawler.base.clock import SteadyClock
from crawler.cli.exit_codes import UsageError
from crawler.cli.options import FLAGS
from crawler.job.bucket.address import is_address

if TYPE_CHECKING:
    from crawler.service.engine_source import EngineSource
    from crawler.service.source import Source


def add_subject(parser: argparse.ArgumentParser, *, in_store: bool = True) -> None:
    """Add the argument DIR. ``in_store``: DIR may also be the address of a store (``by_address``)."""
    text = "a job, or a partitioned crawl"
    text += "; or the address of the store where it lives, or of a backup" if in_store else ""
    parser.add_argument("job", type=directory_or_address, metavar="DIR", help=text)
    parser.set_defaults(takes_crawl=True)


def add_subject_or_engine(parser: argparse.ArgumentParser, *, in_store: bool = True) -> None:
    """Add the arguments of ``add_subject``, or those of ``add_engine`` if the words name an engine."""
    if not getattr(parser, "by_engine", False):
        add_subject(parser, in_store=in_store)
    add_engine(parser)


def directory_or_address(text: str) -> Path | str:
    # Path would collapse the slashes of s3://.
    return text if is_address(text) else Path(text)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name a crawl on an engine."""
    group = parser.add_argument_group("instead of DIR, a partitioned crawl on several machines")
    for flag, text in (("--engine", "its workers' server, such as redis://HOST:PORT"), ("--crawl", "its name")):
        group.add_argument(flag, **{**FLAGS[flag][2], "help": text})
    parser.set_defaults(takes_crawl=True)


def at_engine(arguments: argparse.Namespace) -> bool:
    """Return True if the subject is a crawl at an engine. Raises UsageError if only one of the two flags is given."""
    if arguments.engine is None and arguments.crawl is not None:
        raise UsageError("--crawl is the name of a crawl at an engine: add --engine URL")
    if arguments.engine is not None and arguments.crawl is None:
        raise UsageError("--engine needs --crawl NAME: several crawls may share an engine")
    return arguments.engine is not None


@contextlib.contextmanager
def engine_crawl(arguments: argparse.Namespace) -> Iterator[EngineSource]:
    """Yield the crawl at the engine. Raises CarrierError, CarrierRefusedError."""
    from crawler.service.engine_source import EngineSource  # noqa: PLC0415, not needed for a directory

    view = EngineSource(arguments.engine, arguments.crawl, SteadyClock())
    try:
        yield view
    finally:
        view.close()


@contextlib.contextmanager
def subject_source(arguments: argparse.Namespace) -> Iterator[Source]:
    """Yield the source that describes the subject. Raises the errors of ``engine_crawl`` and
    ``source_of``."""
    if not at_engine(arguments):
        from crawler.service.file_source import source_of  # noqa: PLC0415, as above

        yield source_of(arguments.job, SteadyClock())
        return
    with engine_crawl(arguments) as view:
        yield view
