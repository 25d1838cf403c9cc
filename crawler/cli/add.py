"""``crawler add``: adds URLs to a job, running or not."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from crawler.base.figures import counted
from crawler.base.say import say
from crawler.base.settings.parts import CLASSES
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.named_urls import named_urls
from crawler.cli.url_batches import UrlBatches, add_class, add_job, add_no_wait, deliver
from crawler.engine.seeds import STDIN, stream_batches
from crawler.inspect.crawl_partitions import CrawlPartitions, holds_crawl
from crawler.job.inbox import MOST_URLS, Answer
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

_UNANSWERED = 8  # reading standard input pauses while the inbox has this many unanswered files


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Admit URLs that are in scope and new, at depth 0. They are on disk when the command ends. A "
        "running crawl admits them within a second and reports how many were new."
    )
    add_job(parser)
    parser.add_argument("urls", nargs="+", metavar="URL", help="URLs, or - for standard input, one per line")
    parser.add_argument("--seed", action="store_true", help="extend the scope with these URLs, as seeds do")
    text = f"their priority class, from 0 (fetched first) to {CLASSES - 1}; overrides the [[priority]] rules"
    add_class(parser, "--priority", text)
    add_no_wait(parser)
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    if "-" in arguments.urls and len(arguments.urls) > 1:
        raise UsageError("give URLs, or - for standard input, not both")
    if arguments.seed and holds_crawl(arguments.job):
        raise UsageError(
            f"{arguments.job} holds a partitioned crawl, whose scope `crawler add --seed` cannot extend: name the "
            "URLs as seeds of its next run"
        )
    return deliver(arguments, _add)


async def _texts(arguments: argparse.Namespace, canonicaliser: Canonicaliser) -> AsyncIterator[list[str]]:
    """Yield the URLs to add, in batches that each fit into one file of the inbox. Raises SeedsError, UsageError."""
    if "-" in arguments.urls:
        async for lines in stream_batches(STDIN, MOST_URLS):
            yield lines
        return
    texts = [url.text for url in named_urls(arguments.urls, canonicaliser)]
    for start in range(0, len(texts), MOST_URLS):
        yield texts[start : start + MOST_URLS]


async def _add(arguments: argparse.Namespace, crawl: CrawlPartitions) -> int:
    """Leave each URL in the inbox of its partition."""
    adding = {each.number: UrlBatches(arguments, each) for each in crawl.found}
    canonicaliser, placement, streams = crawl.canonicaliser(), crawl.placement, "-" in arguments.urls
    lost = 0
    way_out = f"not in {crawl.directory}: name them as seeds when the crawl has ended"

    async def add(texts: Sequence[str]) -> None:
        nonlocal lost
        of: defaultdict[int, list[str]] = defaultdict(list)
        for text in texts:
            url = canonicaliser.canonicalise(text)
            # Any partition can report an invalid URL.
            of[placement.of(url.href) if isinstance(url, Canonical) else crawl.found[0].number].append(text)
        absent = {number: urls for number, urls in of.items() if number not in adding}
        if absent and not streams:
            number, urls = next(iter(absent.items()))
            raise UsageError(f"{urls[0]} belongs to partition {number:02}, which is {way_out}")
        lost += sum(map(len, absent.values()))
        for number, urls in of.items():
            if number in adding:
                await _take(arguments, adding[number], urls)

    async for texts in _texts(arguments, canonicaliser):
        await add(texts)
    code = max([await each.report(_words) for each in adding.values() if each.stored or crawl.is_job], default=Exit.OK)
    if lost:
        say(sys.stderr, f"crawler: {counted(lost, 'URL')} left out, because their partitions are {way_out}")
    return Exit.FAILED if lost else code


async def _take(arguments: argparse.Namespace, url_batches: UrlBatches, urls: Sequence[str]) -> None:
    """Leave a batch of URLs, which must fit into one file, in the inbox."""
    seed, priority, waits = arguments.seed, arguments.priority, url_batches.waits
    url_batches.leave(len(urls), lambda inbox: inbox.deposit(urls, seed=seed, answer=waits, priority=priority))
    if waits and url_batches.unanswered >= _UNANSWERED:
        await url_batches.wait_until(_UNANSWERED - 1)


def _words(answer: Answer) -> str:
    return (
        f"{answer.admitted} admitted, {answer.known} known, {answer.off_scope} out of scope, "
        f"{len(answer.rejected)} invalid"
    )
