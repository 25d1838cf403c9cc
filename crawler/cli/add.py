"""``crawler add``: adds URLs to a job, running or not."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence

from crawler.cli.exit_codes import UsageError
from crawler.cli.named_urls import named_urls
from crawler.cli.parcels import Parcels, add_job, add_no_wait, deliver
from crawler.engine.seeds import STDIN, stream_batches
from crawler.job.inbox import MOST_URLS, Answer
from crawler.settings import CLASSES, Settings
from crawler.urls import Canonicaliser

_PATIENCE = 1.0  # seconds to gather lines of standard input
_UNANSWERED = 8  # files in the inbox at which reading standard input pauses


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Admit URLs that are in scope and new, at depth 0. They are on disk when the command ends. A "
        "running crawl admits them within a second and reports how many were new."
    )
    add_job(parser)
    parser.add_argument("urls", nargs="+", metavar="URL", help="URLs, or - for standard input, one per line")
    parser.add_argument("--seed", action="store_true", help="extend the scope with them, as seeds do")
    parser.add_argument(
        "--priority",
        type=int,
        choices=range(CLASSES),
        metavar="CLASS",
        help=f"their priority class, from 0, which goes first, to {CLASSES - 1}; it overrides the [[priority]] rules",
    )
    add_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    return deliver(arguments, lambda _, settings: _add(arguments, settings))


async def _add(arguments: argparse.Namespace, settings: Settings) -> int:
    if "-" in arguments.urls:
        if len(arguments.urls) > 1:
            raise UsageError("give URLs, or - for standard input, not both")
        return await _Adding(arguments, settings).stream()
    urls = named_urls(arguments.urls, Canonicaliser(settings.canonical.rules))
    return await _Adding(arguments, settings).all([url.text for url in urls])


class _Adding:
    """One call of the command."""

    def __init__(self, arguments: argparse.Namespace, settings: Settings) -> None:
        self._parcels = Parcels(arguments, settings)
        self._seed: bool = arguments.seed
        self._priority: int | None = arguments.priority

    async def all(self, urls: Sequence[str]) -> int:
        for start in range(0, len(urls), MOST_URLS):
            self._deposit(urls[start : start + MOST_URLS])
        return await self._parcels.report(_words)

    async def stream(self) -> int:
        """Add standard input as it arrives, until it ends. Raises SeedsError."""
        async for lines in gathered(stream_batches(STDIN)):
            self._deposit(lines)
            if self._parcels.waits and self._parcels.unanswered >= _UNANSWERED:
                await self._parcels.wait_until(_UNANSWERED - 1)
        return await self._parcels.report(_words)

    def _deposit(self, urls: Sequence[str]) -> None:
        seed, priority = self._seed, self._priority
        waits = self._parcels.waits
        self._parcels.leave(len(urls), lambda inbox: inbox.deposit(urls, seed=seed, answer=waits, priority=priority))


def _words(answer: Answer) -> str:
    return (
        f"{answer.admitted} admitted, {answer.known} known, {answer.off_scope} out of scope, "
        f"{len(answer.rejected)} invalid"
    )


async def gathered(batches: AsyncIterator[list[str]]) -> AsyncIterator[list[str]]:
    """Yield the same lines in larger batches: those of one second, or as many as a file holds."""
    lines: list[str] = []
    coming = asyncio.ensure_future(_next(batches))
    while True:
        done, _ = await asyncio.wait({coming}, timeout=_PATIENCE if lines else None)
        more = coming.result() if done else None
        if done and more is not None:
            lines += more
            coming = asyncio.ensure_future(_next(batches))
            if len(lines) < MOST_URLS:
                continue
        while lines:
            yield lines[:MOST_URLS]
            lines = lines[MOST_URLS:]
        if done and more is None:
            return


async def _next(batches: AsyncIterator[list[str]]) -> list[str] | None:
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return None
