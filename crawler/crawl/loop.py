"""The crawl: the one module that knows all others. Read top to bottom it is the life of one URL.

    discover   href and base -> canonical -> in scope? -> admitted if never seen
    visit      taken from the frontier -> robots.txt -> fetched -> its outlinks discovered -> its record written, done

One task hands out leases while slots are free, each to a task of its own. Whatever a server or network can do comes
back as a value and ends as a record; an exception is a bug or a failing disk, and stops the crawl.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from asyncio_throttle.throttler import Throttler

from crawler.crawl.advice import Adviser
from crawler.crawl.compaction import compact_beside
from crawler.crawl.job import Job
from crawler.crawl.robots_cache import RobotsCache, encode_robots
from crawler.crawl.stall import LoopStall
from crawler.crawl.stats import assemble
from crawler.crawl.verdict import Again, Finished, Throttled, judge, parse_retry_after
from crawler.fetch import Fetches, fetch_robots
from crawler.frontier import Entry, Lease, retry_wait
from crawler.links import encode_queries, extract_links
from crawler.records import Outcome, PageRecord
from crawler.settings import Settings
from crawler.urls import Canonical, Canonicaliser, Rejected

log = logging.getLogger("crawler")

GRACE = 5.0  # seconds that requests in flight are given when the crawl stops
LINKS_A_STEP = 1_000  # outlinks admitted in one step; a page with more takes several, and the loop runs between them


class State(StrEnum):
    """Where the crawl is."""

    RUNNING = "running"
    PAUSED = "paused"  # the disk is full
    STOPPING = "stopping"
    ENDED = "ended"  # nothing is pending
    STOPPED = "stopped"  # by a limit, a signal or an error, with URLs left


class Stop(StrEnum):
    """Why the crawl handed out no more."""

    FINISHED = "finished"
    MAX_PAGES = "max-pages"
    MAX_TIME = "max-time"
    MIN_FREE = "min-free"
    INTERRUPTED = "interrupted"


class Crawl:
    """One run over a job."""

    def __init__(self, job: Job, fetcher: Fetches, settings: Settings, clock: Callable[[], float]) -> None:
        self.job = job
        self.settings = settings
        self.state = State.RUNNING
        self.started_at = clock()
        self._clock = clock
        self._fetcher = fetcher
        self._canonicaliser = Canonicaliser(settings.canonical.rules)
        self._robots = RobotsCache(job.store, settings.robots, settings.fetch.user_agent)
        rate = settings.politeness.rate
        self._throttle = None if rate is None else _throttler(rate)
        self._visits: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stop: Stop | None = None
        self._seeding = False
        self.seeds_rejected = 0
        self.disk_free = shutil.disk_usage(job.directory).free
        self._said_blocked = False
        self._stall = LoopStall()
        self._adviser = Adviser(settings.seen.compact_slices)
        self._last_seed_error: str | None = None

    # -- the run -----------------------------------------------------------------------------------------------

    async def run(self, seeds: AsyncIterator[list[str]], *, finite: bool = True) -> Stop:
        """Crawl until nothing is pending and the seeds have ended, or until a limit or ``stop``. ``finite`` seeds are
        read to their end also where a limit is reached before: they are then known to the next run.

        An exception of any part ends it: what is in flight is dropped (it stays pending) and the exception raised."""
        self._seeding = True
        try:
            async with asyncio.TaskGroup() as group:
                seeding = group.create_task(self._seed(seeds))
                keeping = group.create_task(self._keep())
                advising = self._adviser.watch(self.job.seen, self._clock)
                others = (self._stall.watch(), compact_beside(self.job.compact), advising)
                beside = [group.create_task(other) for other in others]
                try:
                    reason = await self._hand_out(group, finite)
                finally:
                    for task in (seeding, keeping, *beside):
                        task.cancel()
        except BaseExceptionGroup as errors:
            self.state = State.STOPPED
            raise _first(errors) from errors
        self.state = State.ENDED if reason is Stop.FINISHED else State.STOPPED
        return reason

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Hand out no more. What is in flight has a few seconds to finish, then it is released: it stays pending."""
        if self._stop is None:
            self._stop = reason
            self.state = State.STOPPING
            self._stopping.set()
            self._wake.set()
            asyncio.get_running_loop().call_later(GRACE, self._release_all)
        elif reason is Stop.INTERRUPTED:
            self._stop = reason  # whoever asks for it is told so, also where a limit was first

    def _release_all(self) -> None:
        for visit in self._visits:
            visit.cancel()

    def stats(self) -> dict[str, Any]:
        """What every view of the crawl shows."""
        job, now = self.job, self._clock()
        return assemble(
            job.counters,
            job.seen,
            job.manifest,
            now=now,
            state=State.PAUSED if job.blocked is not None and self.state is State.RUNNING else self.state,
            in_flight=job.counters.pending - job.frontier.queued,
            hosts_pending=job.frontier.hosts_pending,
            elapsed=now - self.started_at,
            seeds_rejected=self.seeds_rejected,
            paused=job.blocked,
            disk_free=self.disk_free,
            stall=self._stall,
            advice=self._adviser.advice,
        )

    async def _hand_out(self, group: asyncio.TaskGroup, finite: bool) -> Stop:
        frontier, concurrency = self.job.frontier, self.settings.crawl.concurrency
        deadline = self._deadline()
        while True:
            self._wake.clear()
            now = self._clock()
            if deadline is not None and now >= deadline:
                self.stop(Stop.MAX_TIME)
            if self._stop is None and not self._seeding and not frontier.queued and not self._visits:
                return Stop.FINISHED
            if self._stop is None and self._page_limit_reached() and not (self._seeding and finite):
                self.stop(Stop.MAX_PAGES)
            if self._stop is not None and not self._visits:
                return self._ended_meanwhile(self._stop)
            lease = frontier.take(now) if self._may_take(concurrency) else None
            if lease is None:
                await self._wait(self._next_event(now, deadline, concurrency))
            elif self._refuse(lease):
                await asyncio.sleep(0)
            elif self._throttle is None or await self._turn(lease, deadline):
                visit = group.create_task(self._visit(lease))
                self._visits.add(visit)
                visit.add_done_callback(self._visit_ended)

    def _ended_meanwhile(self, reason: Stop) -> Stop:
        # A limit that was reached with the very last URL left nothing over.
        left = self._seeding or self.job.frontier.queued
        return reason if left or reason is Stop.INTERRUPTED else Stop.FINISHED

    def _may_take(self, concurrency: int) -> bool:
        if self._stop is not None or len(self._visits) >= concurrency or self.job.blocked is not None:
            return False
        limit = self.settings.crawl.max_pages
        return limit is None or self.job.counters.fetched + len(self._visits) < limit

    def _page_limit_reached(self) -> bool:
        limit = self.settings.crawl.max_pages
        return limit is not None and self.job.counters.fetched >= limit

    def _deadline(self) -> float | None:
        limit = self.settings.crawl.max_time
        return None if limit is None else self.started_at + limit

    def _next_event(self, now: float, deadline: float | None, concurrency: int) -> float | None:
        """Seconds until something is due by itself; None: only another task can change anything."""
        times = [deadline] if deadline is not None and self._stop is None else []
        ready = self.job.frontier.next_ready() if self._may_take(concurrency) else None
        if ready is not None:
            times.append(ready)
        return max(0.0, min(times) - now) if times else None

    async def _wait(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _turn(self, lease: Lease, deadline: float | None) -> bool:
        """Wait for the global rate; False when the crawl was stopped or its time ran out meanwhile. There is one
        waiter, this one: the throttler polls for each."""
        assert self._throttle is not None
        turn = asyncio.ensure_future(_acquire(self._throttle))
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            left = None if deadline is None else max(0.0, deadline - self._clock())
            await asyncio.wait({turn, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            mine = turn.done() and not self._stopping.is_set()
        finally:
            turn.cancel()
            stopped.cancel()
        if mine:
            return True
        self.job.frontier.release(lease)
        return False

    def _visit_ended(self, visit: asyncio.Task[None]) -> None:
        self._visits.discard(visit)
        self._wake.set()

    async def _keep(self) -> None:
        """Make steps durable every second, and write a generation every minute."""
        settings = self.settings.durability
        next_checkpoint = self._clock() + settings.checkpoint_interval
        while True:
            await asyncio.sleep(settings.sync_interval)
            self._watch_disk(settings.min_free)
            if not self._has_room():
                continue
            await self.job.sync()
            # Asked again: the disk may have been found full while the sync was under way.
            if self._clock() >= next_checkpoint and self.job.blocked is None:
                await self.job.checkpoint(self._clock())
                next_checkpoint = self._clock() + settings.checkpoint_interval
            self._say_notes()

    def _watch_disk(self, least: int) -> None:
        self.disk_free = shutil.disk_usage(self.job.directory).free
        if self.disk_free < least and self._stop is None:
            log.warning("stopping: %d bytes free on the disk, durability.min_free is %d", self.disk_free, least)
            self.stop(Stop.MIN_FREE)

    def _has_room(self) -> bool:
        """Whether steps can be written; tries the one that could not."""
        was = self.job.blocked
        if was is not None and self.job.write_again():
            log.warning("there is space again: the crawl goes on")
            self._wake.set()
        elif was is not None and not self._said_blocked:
            log.warning("paused, nothing is lost: %s; waiting for space", was)
        self._said_blocked = self.job.blocked is not None
        return self.job.blocked is None

    def _say_notes(self) -> None:
        while self.job.notes:
            log.warning(self.job.notes.pop(0))

    # -- discover ----------------------------------------------------------------------------------------------

    async def _seed(self, seeds: AsyncIterator[list[str]]) -> None:
        """Admit the seeds; each widens the scope. A line that is no URL is counted and shown."""
        async for lines in seeds:
            found: list[Canonical] = []
            for line in lines:
                url = self._canonicaliser.canonicalise(line)
                if isinstance(url, Rejected):
                    self.seeds_rejected += 1
                    log.warning("seed skipped: %s: %s", _shown(line), url.reason)
                    continue
                found.append(url)
            await self.job.room()
            for url in found:
                self.job.widen(url.href)
            self.job.admit(found, depth=0, seed=True)
            self._wake.set()
        self._seeding = False
        self._wake.set()

    def _in_scope(self, urls: list[Canonical], depth: int) -> list[Canonical]:
        counters, longest = self.job.counters, self.settings.links.max_url_length
        if self.settings.crawl.max_depth is not None and depth > self.settings.crawl.max_depth:
            counters.too_deep += len(urls)
            return []
        contains = self.job.scope.contains
        inside = [url for url in urls if contains(url.href)]
        counters.off_scope += len(urls) - len(inside)
        short = [url for url in inside if len(url.href) <= longest]
        counters.too_long += len(inside) - len(short)
        return short

    # -- visit -------------------------------------------------------------------------------------------------

    def _refuse(self, lease: Lease) -> bool:
        """Finish a URL that robots.txt does not allow, without asking its host."""
        if lease.entry is None or self.settings.robots.ignore:
            return False
        robots = self._robots.get(lease.host.name)
        if robots is None:
            raise RuntimeError(f"host {lease.host.name} was handed out before its robots.txt was asked for")
        if robots.rules.allowed(lease.entry.href):
            return False
        outcome = Outcome.EXCLUDED if robots.reachable or robots.refused else Outcome.FAILED
        now = self._clock()
        refused = PageRecord(lease.entry, outcome, now, error=robots.refusal)
        self._seed_failed(refused)
        self.job.finish(lease, Finished(refused), now, requested=False)
        return True

    async def _visit(self, lease: Lease) -> None:
        try:
            if lease.entry is None:
                await self._visit_robots(lease)
            else:
                await self._visit_url(lease, lease.entry)
        except asyncio.CancelledError:
            # Only an await can be cancelled, and every lease is ended in a step without one.
            self.job.frontier.release(lease)
            raise

    async def _visit_url(self, lease: Lease, entry: Entry) -> None:
        result = await self._fetcher.fetch(entry.href)
        await self.job.room()
        now = self._clock()
        match judge(entry, result, now, self.settings.retry):
            case Again() as again:
                self.job.retry(lease, again, now)
            case Throttled() as throttled:
                self.job.throttle(lease, throttled, now)
            case Finished(location=None) as finished:
                await self._finish_page(lease, finished)
            case Finished() as finished:
                self._finish_redirect(lease, finished)

    async def _finish_page(self, lease: Lease, finished: Finished) -> None:
        record = finished.record
        if finished.body is None:
            self._seed_failed(record)
            self.job.finish(lease, finished, self._clock())
            return
        entry = record.entry
        page = extract_links(finished.body, finished.charset, self.settings.links)
        base = entry.href
        if page.base is not None:
            resolved = self._canonicaliser.canonicalise(page.base, entry.href)
            base = base if isinstance(resolved, Rejected) else resolved.href
        urls, rejected = self._canonicaliser.outlinks(base, encode_queries(page.hrefs, page.encoding))
        self.job.counters.links += len(urls)
        self.job.counters.rejected_links += rejected
        outlinks = [] if page.nofollow else self._in_scope(urls, entry.depth + 1)
        while len(outlinks) > LINKS_A_STEP:
            self.job.admit(outlinks[:LINKS_A_STEP], depth=entry.depth + 1, via=entry.href)
            outlinks = outlinks[LINKS_A_STEP:]
            self._wake.set()
            await asyncio.sleep(0)
            await self.job.room()
        self.job.finish(lease, finished, self._clock(), outlinks=outlinks, record=replace(record, links=len(urls)))

    def _finish_redirect(self, lease: Lease, finished: Finished) -> None:
        """A redirect is a newly discovered link at the same depth."""
        entry, location = finished.record.entry, finished.location
        assert location is not None
        error: str | None = None
        target: list[Canonical] = []
        url = self._canonicaliser.canonicalise(location, entry.href)
        if isinstance(url, Rejected):
            error = f"redirect to {_shown(location)}: {url.reason}"
        elif entry.redirects >= self.settings.fetch.max_redirects:
            error = f"redirect number {entry.redirects + 1} in a row: not followed (fetch.max_redirects)"
        else:
            if entry.seed and self.job.widen(url.href):
                log.warning("scope widened: seed %s redirects to %s", entry.href, url.href)
            target = self._in_scope([url], entry.depth)
        record = replace(
            finished.record,
            outcome=Outcome.REDIRECT,
            location=location if isinstance(url, Rejected) else url.href,
            error=error,
        )
        self.job.finish(lease, finished, self._clock(), outlinks=target, record=record)

    # -- robots.txt --------------------------------------------------------------------------------------------

    async def _visit_robots(self, lease: Lease) -> None:
        host = lease.host
        pause = max(self.settings.politeness.delay, host.crawl_delay or 0.0)
        href = self.job.frontier.peek(host).href
        result = await fetch_robots(self._fetcher, href, self.settings.robots, pause)
        await self.job.room()
        now = self._clock()
        if result.passing and host.robots_tries + 1 < self.settings.retry.tries:
            wait = retry_wait(host.robots_tries + 1, self.settings.retry)
            asked = parse_retry_after(result.retry_after, now) or 0.0
            wait = max(wait, min(asked, self.settings.politeness.max_retry_after))
            if host.robots_tries == 0:
                log.warning("%s: robots.txt again in %.0f s: %s", host.name, wait, result.error or result.status)
            self.job.robots_later(lease, wait, now)
            return
        stored = encode_robots(result, now)
        robots = self._robots.decode(stored)
        self._robots.forget(host.name)
        self.job.robots_known(lease, stored, now + self._robots.ttl(robots), robots.rules.crawl_delay, now)

    def _seed_failed(self, record: PageRecord) -> None:
        if record.entry.seed and record.outcome is not Outcome.FETCHED:
            self._last_seed_error = f"{record.entry.href}: {record.error}"

    @property
    def last_seed_error(self) -> str | None:
        """Why the last seed that could not be fetched was not."""
        return self._last_seed_error


def _throttler(rate: float) -> Throttler:
    # About ten periods a second, so that a second's requests do not come all at its start; the throttler counts in
    # whole requests, so a slow rate needs a longer period.
    requests = max(1, round(rate / 10))
    return Throttler(rate_limit=requests, period=requests / rate)


async def _acquire(throttler: Throttler) -> None:
    await throttler.acquire()  # type: ignore[no-untyped-call]  # the library has no types


def _shown(text: str) -> str:
    """At most 200 characters of it, control characters escaped."""
    short = text if len(text) <= 200 else text[:200] + "..."
    return short.encode("unicode_escape").decode("ascii")


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
