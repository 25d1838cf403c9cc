"""The seeds of a job, for its page: those read by the current run, or those named in the job's last command."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from crawler.engine.seeds import SeedsError, read_urls
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.last_command import read_command
from crawler.job.survey.record_kinds import clipped
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

SEEDS = 20
LONGEST = 500  # maximum characters of a URL; longer URLs are cut
_LOOK = 1_000  # maximum number of lines of a file to search for seeds


class JobSeeds:
    """The first seeds of the job in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._named: dict[str, None] = {}  # seeds of this run, in order

    async def pass_on(self, seeds: AsyncIterator[list[str]], canonicaliser: Canonicaliser) -> AsyncIterator[list[str]]:
        """Pass on the seeds of a run as they arrive, and remember the first ones."""
        async for batch in seeds:
            if len(self._named) < SEEDS:
                self._named |= _hrefs(batch, canonicaliser, SEEDS - len(self._named))
            yield batch

    async def first(self, canonicaliser: Canonicaliser) -> list[str]:
        """Return the first known seeds."""
        found = dict(self._named)
        if len(found) < SEEDS:
            found |= await asyncio.to_thread(lambda: _hrefs(command_seeds(self._directory), canonicaliser, SEEDS))
        return list(found)[:SEEDS]


def command_seeds(directory: Path) -> Iterator[str]:
    """Yield the seeds with which the last run of a job was started, if they can still be read."""
    try:
        command = read_command(directory)
    except (EnvelopeError, OSError):
        return  # the error is reported when the job is started again
    if command is None:
        return
    urls, files, _ = command.seeds_of(directory)
    yield from urls
    for path in files:
        try:
            yield from itertools.islice(read_urls(path), _LOOK)
        except SeedsError:
            continue  # the run has reported it


def _hrefs(texts: Iterable[str], canonicaliser: Canonicaliser, most: int) -> dict[str, None]:
    """Return the first ``most`` texts that are URLs, in canonical form."""
    found: dict[str, None] = {}
    for text in texts:
        if len(found) >= most:
            break
        url = canonicaliser.canonicalise(text)
        if isinstance(url, Canonical):
            found[clipped(url.href, LONGEST)] = None
    return found
