"""``crawler priority``: changes the priority class of pending URLs of a job, running or not."""

from __future__ import annotations

import argparse

from crawler.base.figures import counted
from crawler.base.settings.parts import CLASSES
from crawler.cli.exit_codes import UsageError
from crawler.cli.url_batches import UrlBatches, add_class, add_job, add_no_wait, deliver
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition
from crawler.job.inbox import Answer
from crawler.url.scope.patterns import Pattern, PatternError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Change the priority class of all pending URLs that match a pattern. A URL matches itself. A running crawl "
        "does this in the background, and reports how many it moved; URLs in flight keep their class."
    )
    add_job(parser)
    parser.add_argument("pattern", metavar="PATTERN", help="which URLs, as for `crawl --include`")
    add_class(parser, "priority", f"from 0 (fetched first) to {CLASSES - 1}")
    add_no_wait(parser)
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    try:
        Pattern(arguments.pattern)
    except PatternError as error:
        raise UsageError(f"{arguments.pattern!r}: {error}") from error
    return deliver(arguments, _move_all)


async def _move_all(arguments: argparse.Namespace, crawl: CrawlPartitions) -> int:
    """Move the matching URLs in all partitions, because any partition may have some."""
    return max([await _move(arguments, each) for each in crawl.found])


async def _move(arguments: argparse.Namespace, partition: Partition) -> int:
    url_batches, pattern, priority = UrlBatches(arguments, partition), arguments.pattern, arguments.priority

    def words(answer: Answer) -> str:
        return f"{counted(answer.admitted, 'URL')} moved to class {priority}"

    url_batches.leave(1, lambda inbox: inbox.change_class(pattern, priority, answer=url_batches.waits))
    return await url_batches.report(words)
