"""``crawler retry``: requeues finished URLs of a job, running or not, for another visit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from crawler.base.figures import counted
from crawler.base.say import say
from crawler.base.settings.parts import CLASSES
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.named_urls import named_urls
from crawler.cli.url_batches import UrlBatches, add_class, add_job, add_no_wait, deliver
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition
from crawler.inspect.record_stream import Tail, once_known, tail_of
from crawler.job.inbox import MOST_URLS, Answer
from crawler.job.output.finished import Choice, Past, knows_host, rules_of, select


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Visit finished URLs again, with any kind of seen-set. Each gets another record. Snoozed or retired hosts are "
        "tried again, starting with robots.txt. The URLs are queued on "
        "disk when the command ends; a running crawl takes them within a second, otherwise the next run does."
    )
    add_job(parser)
    parser.add_argument("urls", nargs="*", metavar="URL", help="finished URLs")
    parser.add_argument("--failed", action="store_true", help="URLs that ended as failed")
    parser.add_argument(
        "--excluded",
        metavar="RULE",
        help="URLs that this rule excluded: the field `rule` of their records, the first words of `error`, "
        "or `robots`, `soft404`, `blocked`, `payment`",
    )
    parser.add_argument("--host", metavar="HOST", help="only URLs of this host, with or without its port")
    text = f"their priority class, 0 to {CLASSES - 1}; with 0 they are the next URLs of their hosts"
    add_class(parser, "--priority", text)
    add_no_wait(parser)
    parser.set_defaults(run=run, takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    return deliver(arguments, _retry)


async def _retry(arguments: argparse.Namespace, crawl: CrawlPartitions) -> int:
    """Requeue matching URLs in all partitions, or named URLs only in their own partition."""
    choice, found, code = _choice(arguments, crawl), _Found(), int(Exit.OK)
    owners = {crawl.placement.of(href) for href in choice.hrefs}
    for partition in crawl.found:
        if owners and partition.number not in owners:
            continue
        with partition.named():
            url_batches = UrlBatches(arguments, partition)
            pasts = _selected(crawl, partition, choice)
            there, code_there = await _put_back_all(pasts, choice, url_batches, arguments.priority)
        found, code = _Found(found.urls + there.urls, found.hrefs | there.hrefs), max(code, code_there)
    if not found.urls:
        print(_words(Answer()))
    return _said(arguments.job, choice, found) or code


class _Found(NamedTuple):
    """The number of matching URLs, and which of the named URLs they include."""

    urls: int = 0
    hrefs: frozenset[str] = frozenset()


def _choice(arguments: argparse.Namespace, crawl: CrawlPartitions) -> Choice:
    hrefs = frozenset(each.url.href for each in named_urls(arguments.urls, crawl.canonicaliser()))
    choice = Choice(arguments.failed, arguments.excluded, arguments.host, hrefs)
    if choice.is_empty:
        raise UsageError("name what to visit again: --failed, --excluded RULE, --host HOST, or URLs")
    return choice


async def _put_back_all(
    pasts: Iterator[Past], choice: Choice, url_batches: UrlBatches, priority: int | None
) -> tuple[_Found, int]:
    """Requeue the matching URLs of a job. Returns what was found, and the exit code."""
    found, hrefs = 0, set[str]()
    while part := list(islice(pasts, MOST_URLS)):
        found += len(part)
        hrefs |= choice.hrefs.intersection(past.href for past in part)
        await _put_back(url_batches, part, priority)
    # Report only if URLs were found: otherwise each partition would print a line.
    return _Found(found, frozenset(hrefs)), await url_batches.report(_words) if found else Exit.OK


def _said(directory: Path, choice: Choice, found: _Found) -> int:
    """Report the arguments that matched no URL of the job or crawl, and return the exit code."""
    missing = choice.hrefs - found.hrefs
    if choice.excluded is not None and not found.urls:
        rules = sorted(rules_of(tail_of(directory).more()))
        named = f"the rules of this job are {', '.join(rules)}" if rules else "no URL of this job is excluded"
        say(sys.stderr, f"the rule {choice.excluded!r} excluded no such URL: {named}")
    if choice.host is not None and not found.urls and not knows_host(tail_of(directory).more(), choice.host):
        say(sys.stderr, f"this job knows no finished URL of the host {choice.host}")
    for href in sorted(missing):
        say(sys.stderr, f"{href} is not finished here, or has another outcome or host")
    return Exit.FAILED if missing else Exit.OK


async def _put_back(url_batches: UrlBatches, part: list[Past], priority: int | None) -> None:
    url_batches.leave(len(part), lambda inbox: inbox.put_back(part, answer=url_batches.waits, priority=priority))
    if url_batches.waits:
        await url_batches.wait_until(0)


def _words(answer: Answer) -> str:
    return f"{counted(answer.admitted, 'URL')} requeued, {answer.known} already pending"


def _selected(crawl: CrawlPartitions, partition: Partition, choice: Choice) -> Iterator[Past]:
    """Yield the matching finished URLs of the partition. Raises JobError, OSError, any of DAMAGE."""
    directories = crawl.with_records(partition)[::-1]
    for directory in directories:
        once_known(directory, partial(Tail(directory).last, 0))
    pasts = select(lambda: chain.from_iterable(Tail(directory).more() for directory in directories), choice)
    of = crawl.placement.of
    return (past for past in pasts if past is not None and of(past.href) == partition.number)
