"""Admits URLs that come from outside: the seeds of a run, the files in the job's inbox, and the URLs of POST
/api/urls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from crawler.checkpoint import EnvelopeError
from crawler.disk import FULL
from crawler.engine.discover import Discovery
from crawler.job.found import Found
from crawler.job.inbox import Answer, Inbox
from crawler.job.job import Job

log = logging.getLogger("crawler")

INTERVAL = 1.0  # seconds between two looks into the inbox
_STEP = 1_000  # URLs admitted in one transaction


class Injector:
    """Admits URLs to a job. ``wake`` is called when URLs were admitted and when an inbox file is done."""

    def __init__(self, job: Job, discovery: Discovery, inbox: Inbox, wake: Callable[[], None]) -> None:
        self._job = job
        self._discovery = discovery
        self._inbox = inbox
        self._wake = wake

    @property
    def seeds_rejected(self) -> int:
        """Lines among the seeds of this run that are not valid URLs."""
        return self._discovery.seeds_rejected

    async def admit_seeds(self, batches: AsyncIterator[list[str]]) -> None:
        """Admit all seeds. Each widens the scope."""
        async for lines in batches:
            found = self._discovery.seeds(lines)
            await self._job.room()
            for url in found:
                self._job.widen(url.href)
            self._job.admit(Found(found, 0, seed=True))
            self._wake()

    async def watch(self, clock: Callable[[], float]) -> None:
        """Look into the inbox every second until cancelled.

        A full disk only delays this: what was not answered is read again later. Raises OSError for any other failure of
        the disk."""
        while True:
            try:
                await self.drain(clock())
            except OSError as error:
                if error.errno not in FULL:
                    raise
            await asyncio.sleep(INTERVAL)

    async def drain(self, now: float) -> None:
        """Admit everything in the inbox. ``now`` is in seconds since 1970. Raises OSError."""
        for name in self._inbox.foreign(now):
            self._set_aside(name, "not a file of the inbox")
        for name in self._inbox.waiting():
            try:
                parcel = self._inbox.read(name)
            except EnvelopeError as error:
                self._set_aside(f"{name}.urls", str(error))
                continue
            answer = await self.take_in(parcel.urls, seed=parcel.seed)
            await asyncio.to_thread(self._inbox.close_parcel, parcel, answer)  # in a thread, because it syncs
            self._wake()  # all these URLs may be finished already, and then the crawl can end

    def _set_aside(self, name: str, why: str) -> None:
        log.warning("inbox: %s: set aside as %s", why, self._inbox.set_aside(name))
        self._wake()

    async def take_in(self, urls: Sequence[str], *, seed: bool) -> Answer:
        """Admit the URLs that are in scope and new, and make that durable. With ``seed``, each URL first widens the
        scope, as a seed does. Returns the counts. Raises OSError."""
        answer = Answer()
        for start in range(0, len(urls), _STEP):
            await self._job.room()
            added = self._discovery.added(urls[start : start + _STEP], seed=seed)
            new = self._job.admit(Found(added.inside, 0, seed=seed))
            answer += Answer(new, len(added.inside) - new, added.outside, added.rejected)
            self._wake()
            await asyncio.sleep(0)
        await self._job.room()
        await self._job.sync()
        return answer
