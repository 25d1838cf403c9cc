"""Admits URLs from outside: the seeds of a run, the files in the job's inbox, and the URLs of POST /api/urls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from crawler.base.disk import PASSING, Expendable
from crawler.engine.fair_turns import Turns
from crawler.engine.links_and_redirects import Discovery
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.found import Found
from crawler.job.inbox import Answer, Inbox, UrlBatch
from crawler.job.job import Job
from crawler.job.requeue import Reclassing, forget, forget_others
from crawler.url.urls.canonicaliser import Canonical

log = logging.getLogger("crawler")

INTERVAL = 1.0  # seconds between two checks of the inbox
_STEP = 1_000  # URLs admitted in one transaction
_DECIDED = 256  # doubted URLs looked up in one transaction
_LOOKED_UP = 50_000  # seeds looked up in one pass over the journal


class Injector:
    """Admits URLs to a job. ``wake`` is called after URLs are admitted and after an inbox file is done. Each
    transaction is a turn of bulk work: however many URLs arrive, the visits keep most of the event loop's time."""

    def __init__(
        self,
        job: Job,
        discovery: Discovery,
        inbox: Inbox,
        wake: Callable[[], None],
        turns: Turns | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``turns``: shared with the visits on the same loop, if any. ``clock``: seconds since 1970."""
        self._job = job
        self._discovery = discovery
        self._inbox = inbox
        self._wake = wake
        self._turns = turns or Turns()
        self._clock = clock
        self._tidied = False  # True once the store's rows of removed batches are deleted
        self._reclassing = Reclassing(job.store, job.frontier)
        self._left: set[str] = set()  # names of inbox files that cannot be read or removed
        self._closing: list[str] = []  # the batch being closed: its file may be removed before everything is stored

    @property
    def seeds_rejected(self) -> int:
        """The number of seeds of this run that are not valid URLs."""
        return self._discovery.seeds_rejected

    async def admit_seeds(self, batches: AsyncIterator[list[str]]) -> None:
        """Admit all seeds. Each one widens the scope."""
        known: list[Canonical] = []
        async for lines in batches:
            await self._turns.turn(bulk=True)
            found = self._discovery.seeds(lines)
            await self._job.room()
            for url in found:
                self._job.widen(url.href)
            known += self._job.called_seen(found)
            self._job.admit(Found(found, 0, seed=True))
            await self._decide()
            self._wake()
            if len(known) >= _LOOKED_UP:
                await self.look_up(Found(known, 0, seed=True))
                known = []
        await self.look_up(Found(known, 0, seed=True))

    async def _decide(self) -> int:
        """Resolve doubted URLs at once, so that the number of new URLs in the user's input is known. Returns the number
        of URLs that the seen-set had wrongly reported as seen. Raises OSError."""
        left, named = self._job.doubted, 0
        while left > 0:
            await self._turn()
            decided = self._job.decide(_DECIDED, self._clock())
            left -= decided.looked_up or left
            named += decided.named
        return named

    async def _turn(self) -> None:
        """Wait until a transaction of bulk work may start."""
        await self._turns.turn(bulk=True)
        await self._job.room()

    async def _make_durable(self) -> None:
        await self._job.room()
        await self._job.promise()

    async def look_up(self, known: Found) -> int:
        """Admit URLs from the user's input that the seen-set wrongly reported as seen. The journal is read in the
        background to find these URLs. Returns their number. Raises OSError, JournalError."""
        if not known.urls:
            return 0
        search = self._job.search(known.urls)
        more = True
        while more:
            await self._turns.turn(bulk=True)
            more = search.step()
            await asyncio.sleep(0)
        await self._job.room()
        missed = self._job.admit_missed(known, search)
        self._wake()
        return missed

    async def watch(self, clock: Callable[[], float]) -> None:
        """Check the inbox every second until cancelled.

        Errors of the inbox are only logged, and URLs that could not be admitted stay there. Raises OSError when the job
        cannot be written."""
        writer, inbox = self._job.writer, Expendable(str(self._inbox.path))
        while True:
            try:
                await self.drain(clock())
            except OSError as error:
                if not writer.whole and writer.blocked is None:
                    raise
                inbox.fail(error)
            else:
                inbox.succeed()
            await asyncio.sleep(INTERVAL)

    def waiting(self) -> list[str]:
        """Return the names of the inbox files that hold URLs to admit or whose completion is not yet stored, except
        files that are left for a later run."""
        try:
            return self._closing + [name for name in self._inbox.waiting() if f"{name}.urls" not in self._left]
        except OSError:
            return self._closing  # ``watch`` reports the error

    async def drain(self, now: float) -> None:
        """Process all files in the inbox. ``now`` is in seconds since 1970. Raises OSError."""
        for name in self._inbox.foreign(now):
            if name not in self._left:
                self._set_aside(name, "not an inbox file")
        waiting = self._inbox.waiting()
        if not self._tidied:
            self._tidied = True
            await self._job.room()
            self._job.change_hosts(partial(forget_others, self._job.store, waiting))
        for name in waiting:
            url_batch = None if f"{name}.urls" in self._left else self._read(name)
            if url_batch is None:
                continue
            answer = await self.take_in(url_batch.urls, seed=url_batch.seed, priority=url_batch.priority)
            answer += await self._put_back(url_batch)
            answer += await self._change_class(url_batch)
            await self._close(url_batch, answer)
            self._wake()  # all these URLs may already be finished, so the crawl may end

    async def _close(self, url_batch: UrlBatch, answer: Answer) -> None:
        """Answer a batch, remove its file, and then delete its stored progress. Raises OSError."""
        job = self._job
        self._closing = [url_batch.name]
        try:
            try:
                await asyncio.to_thread(self._inbox.close_batch, url_batch, answer)  # syncing would block the loop
            except OSError as error:
                self._leave(f"{url_batch.name}.urls", error)  # the next run resumes the batch
                return
            if url_batch.again or url_batch.pattern is not None:
                await job.room()
                job.change_hosts(partial(forget, url_batch.name))
        finally:
            self._closing = []

    def _read(self, name: str) -> UrlBatch | None:
        try:
            return self._inbox.read(name)
        except EnvelopeError as error:
            self._set_aside(f"{name}.urls", str(error))
        except FileNotFoundError:
            pass  # the process that put the file there has taken it back
        except OSError as error:
            self._leave(f"{name}.urls", error)
        return None

    def _set_aside(self, name: str, why: str) -> None:
        try:
            log.warning("inbox: %s: set aside as %s", why, self._inbox.set_aside(name))
        except OSError as error:
            self._leave(name, error)
        self._wake()

    def _leave(self, name: str, error: OSError) -> None:
        """Leave a file that cannot be read or removed for a later run. If the error is temporary, raise it instead."""
        if error.errno in PASSING:
            raise error
        self._left.add(name)
        log.warning("inbox: %s: %s: left for the next run", name, error.strerror or error)
        self._wake()

    async def take_in(self, urls: Sequence[str], *, seed: bool, priority: int | None = None) -> Answer:
        """Admit the URLs that are in scope and new, and make that durable. With ``seed``, each URL first widens the
        scope, as a seed does. Returns the counts. Raises OSError."""
        answer, known = Answer(), list[Canonical]()
        for start in range(0, len(urls), _STEP):
            await self._turn()
            added = self._discovery.added(urls[start : start + _STEP], seed=seed)
            known += self._job.called_seen(added.inside)
            new = self._job.admit(Found(added.inside, 0, seed=seed, priority=priority))
            answer += Answer(new, len(added.inside) - new, added.outside, added.rejected, added.credentials_dropped)
            missed = await self._decide()
            answer += Answer(missed, -missed)
            self._wake()
            await asyncio.sleep(0)
        missed = await self.look_up(Found(known, 0, seed=seed, priority=priority))
        await self._make_durable()
        return answer + Answer(missed, -missed)

    async def _put_back(self, url_batch: UrlBatch) -> Answer:
        """Queue the finished URLs of a batch again, and make that durable. A batch that a crash interrupted resumes
        where it left off. Raises OSError."""
        job, answer = self._job, Answer()
        if not url_batch.again:
            return answer
        done = job.returning.done(url_batch.name)
        pending: set[str] = set()
        for found in job.returning.pending(url_batch.again[done:]):
            pending |= found
            await asyncio.sleep(0)
        while done < len(url_batch.again):
            part = url_batch.again[done : done + _STEP]
            done += len(part)
            await self._turn()
            queued = job.put_back(url_batch.name, part, done, pending, url_batch.priority)
            answer += Answer(queued, len(part) - queued)
            self._wake()
            await asyncio.sleep(0)
        await self._make_durable()
        return answer

    async def _change_class(self, url_batch: UrlBatch) -> Answer:
        """Move the pending URLs that match the batch's pattern to the class that the batch names, and make that
        durable. A batch that a crash interrupted resumes where it left off. Raises OSError."""
        job, pattern, priority = self._job, url_batch.pattern, url_batch.priority
        if pattern is None or priority is None:
            return Answer()
        more = True
        while more:
            await self._turn()
            more = job.change_hosts(partial(self._reclassing.step, url_batch.name, pattern, priority))
            self._wake()
            await asyncio.sleep(0)
        await self._make_durable()
        return Answer(self._reclassing.moved(url_batch.name))
