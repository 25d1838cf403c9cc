"""Fetches a host's robots.txt before its other URLs, and again when the stored answer has expired."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.archiving import Archive
from crawler.engine.context import Context
from crawler.engine.judge import asked_to_wait, proxy_wait, request_outcome
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.outage_detector import RunOutage
from crawler.engine.reading import Unreadable
from crawler.engine.rendering.borrowing import Borrowing
from crawler.engine.robots_redirect import RobotsRedirect
from crawler.frontier.backoff_policy import JITTER, cut_retry_after
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Lease, Retry, RobotsLater, SideRequestDone
from crawler.frontier.politeness import jitter
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.retries import retry_wait, tries_of
from crawler.job.found import SITEMAP_DEPTH, Found
from crawler.job.job import Job
from crawler.job.records import Kept, PageRecord
from crawler.job.verdict import Draft, RobotsAnswer, TryAgain
from crawler.url.consent.statements import NOTHING_STATED, Stated, stricter
from crawler.url.consent.terms import TDM_FILE, TDMREP, Rules, read_terms
from crawler.url.refusal.forbidden_targets import Refusal
from crawler.url.robots.parse import RobotsRules, robots_for_status, robots_url, target_of
from crawler.web.fetch import Failure, FailureKind, NotNow, Response, RobotsResult, fetch_robots
from crawler.web.fetch.robots_answers import NoRobots, Robots, RobotsCache, RobotsRefusal, encode_robots, usable_part
from crawler.web.fetch.robots_fetch import locate

REFUSED_FOR = 60.0  # seconds; the lifetime of a looked-up address
FILES_MOST = 16  # maximum number of files with terms of one host that are read

log = logging.getLogger("crawler")


class RobotsVisits:
    """The robots.txt of the hosts of one job, and the visits that fetch them."""

    def __init__(self, job: Job, discovery: Discovery, line: RunOutage, settings: Settings, context: Context) -> None:
        self.borrowing = Borrowing(job, line, context)
        self._job = job
        self._line = line
        self._discovery = discovery
        self._settings = settings
        self._sites = Sites(settings) or None
        self._context = context
        self._named: dict[str, str] = {}  # by host: the URL of a license that a page named, to be requested next
        self._cache = RobotsCache(job.store, settings.fetch.user_agent, self._parse)
        self.redirect = RobotsRedirect(job, self._cache, self.borrowing, settings, context)
        self._archive = Archive(job.store, settings.output.store_max_size) if self.redirect.keep is not None else None

    def change(self, settings: Settings) -> None:
        """Apply changed settings: waits, and which hosts' robots.txt is ignored."""
        self._settings = settings
        self._sites = Sites(settings) or None
        self.redirect.settings = settings

    def ignores(self, name: str) -> bool:
        """Return whether the host's robots.txt is ignored."""
        return (self._settings.robots if self._sites is None else self._sites.of_host(name).robots).ignore

    def refusal(self, name: str, href: str) -> RobotsRefusal | None:
        """Return the reason why a URL of the host may not be fetched; None if it may be. The robots.txt must be
        known."""
        if self.ignores(name):
            return None
        robots = self._cache.get(name)
        if robots is None:
            raise RuntimeError(f"host {name} was handed out before its robots.txt was fetched")
        refusal = self._context.reading.read(robots.refusal, href)
        return RobotsRefusal(refusal.error, lasting=False) if isinstance(refusal, Unreadable) else refusal

    def add_terms(self, name: str, record: PageRecord) -> None:
        """Add to a record what the host states about uses of its URL, and the host's license if the record has none."""
        robots, href = None if self.ignores(name) else self._cache.get(name), record.entry.href
        if robots is not None and robots.statements:
            record.consent = stricter(*[each.of(target_of(href)) for each in robots.statements], record.consent)
        if robots is not None and robots.licenses and record.license is None:
            record.license = self._locate(robots.licenses[0], robots_url(href))

    async def licensed(self, lease: Lease, draft: Draft) -> Stated:
        """Return what the license that a page names states about it. Raises TryAgain if the license must be fetched
        first."""
        name, entry, address = lease.host.name, draft.record.entry, draft.record.license
        robots = None if address is None or self.ignores(name) else self._cache.get(name)
        if address is None or robots is None:
            return NOTHING_STATED
        if address in robots.terms:
            return robots.terms[address].of(target_of(entry.href))
        # The licenses in robots.txt already count for all pages of the host.
        of_host = [self._locate(each, robots_url(entry.href)) for each in robots.licenses]
        if address not in of_host and len(robots.terms) < FILES_MOST and self.terms_due(name, entry.href, address):
            self._named[name] = address
            await self.ask_terms(name)
            raise TryAgain(Retry(entry, 0.0, draft.request))
        return NOTHING_STATED

    def terms_due(self, name: str, href: str, named: str | None = None) -> tuple[str, str] | None:
        """Return the kind and the URL of a file with terms that must be requested before pages of the host; None if all
        terms are known. ``href``: a URL of the host, whose robots.txt must be at hand. ``named``: a license that a page
        names."""
        if not self._settings.purpose.uses or self.ignores(name) or (robots := self._cache.get(name)) is None:
            return None
        licenses = ((each, each) for each in robots.licenses)
        for kind, location in ((TDM_FILE, TDMREP), *licenses, (named or "", named)):
            address = location and self._locate(location, robots_url(href)) if kind not in robots.terms else None
            other = address and self._cache.get(self._job.frontier.queue_of(address))
            if address and not (other and other.refusal(address)):
                return kind, address
        return None

    async def ask_terms(self, name: str) -> None:
        """Mark the terms of the host to be requested before its next page."""
        await self._job.room()
        self._job.change_hosts(lambda batch: self._job.frontier.overrides.ask_robots(name, batch))

    def _parse(self, status: int, body: bytes, user_agent: str) -> RobotsRules | NoRobots:
        rules = self._context.reading.read(robots_for_status, status, body, user_agent)
        return NoRobots(FailureKind.INTERNAL, rules.message) if isinstance(rules, Unreadable) else rules

    def _locate(self, location: str, address: str) -> str | None:
        target = self._context.reading.read(locate, location, address)
        return None if isinstance(target, Unreadable) else target

    def at_hand(self, name: str) -> bool:
        """Return whether ``refusal`` is fast, because the rules of the host are already parsed or are short."""
        return self.ignores(name) or self._cache.at_hand(name)

    async def prepare(self, name: str) -> None:
        """Parse the rules of the host in a thread, so that ``refusal`` is fast."""
        with self._context.slots.wait():
            await self._cache.prepare(name)

    def declares(self, href: str) -> bool:
        """Return whether the host's robots.txt lists the URL as a sitemap."""
        name = self._job.frontier.queue_of(href)
        robots = None if self.ignores(name) else self._cache.get(name)
        return robots is not None and href in robots.rules.sitemaps

    async def visit(self, lease: Lease, href: str | None = None) -> None:
        """Fetch the host's robots.txt, and end the lease with its answer or with the time of the next try. ``href``:
        any URL of the host; by default a queued one."""
        host, settings = lease.host, self._settings
        href = href or self._job.frontier.peek(host).href
        named = self._named.get(host.name)
        terms = None if host.politeness.robots_until else self.terms_due(host.name, href, named)
        follow = partial(self.redirect.follow if terms is None else self.redirect.follow_terms, host)
        fetcher, file = self._context.fetcher, None if terms is None else terms[1]
        result = await fetch_robots(fetcher, href, follow, self._locate, self.redirect.keep, file=file)
        await self._context.turns.turn()
        now = self._context.clock()
        ours = await self._is_our_fault(lease, href, result, now)
        kept = () if ours or isinstance(result, NotNow) else await self._kept(result, now)
        await self._job.room()
        if ours:
            self._job.take_back(lease, self._context.clock())
            return
        if isinstance(result, NotNow):
            self._come_back(lease, result.wait * (1 + JITTER * jitter(host.name, 1)), now)
            return
        if isinstance(result.answer, Failure) and result.answer.kind is FailureKind.PROXY:
            self._come_back(lease, proxy_wait(settings.retry, host.name), now)  # the proxy failed, not the host
            return
        if terms is not None:
            self._terms(lease, terms[0], href, result, kept, now)
            return
        if isinstance(result.answer, Failure) and result.answer.refusal is not None:
            self._refused(lease, result, result.answer.refusal, now)
            return
        copy = self._cache.good_copy(host.name, now) if result.says_nothing else None
        part = usable_part(result.answer)
        stored = encode_robots(part or result.answer, now - result.last.age, copy)
        with self._context.slots.wait():
            robots = await self._cache.decode_aside(stored)
        await self._job.room()
        now = now if isinstance(result.answer, Failure) else self._context.clock()
        request = request_outcome(result.answer)
        if robots.failure is not None and robots.failure.kind is FailureKind.INTERNAL:
            request = request._replace(failure=FailureClass.INTERNAL)
        again = part is not None and host.politeness.robots_tries > 0  # cut off twice in a row
        charged = self._charged(result, request.failure, now)
        wait = None if again or copy is not None else self._wait(lease, result, charged.retry_after)
        if part is not None and wait is None:
            charged = RequestOutcome(result.seconds, result.received)
        if wait is None:
            known = RobotsAnswer(stored, robots.until, robots.crawl_delay, charged, kept=kept)
            self._known(lease, href, robots, known, now)
        else:
            self._job.robots_later(lease, wait, now, charged)
            self._say_when(lease, result.answer, now)

    def _charged(self, result: RobotsResult, failure: FailureClass | None, now: float) -> RequestOutcome:
        """Return what the requests mean for the host. It is not charged for requests to another host."""
        charged = RequestOutcome(result.seconds, result.received, None if result.last.elsewhere else failure)
        if isinstance(result.answer, Response) and not result.last.elsewhere:
            stated = self._context.reading.read(asked_to_wait, charged, result.answer, now)
            charged = charged if isinstance(stated, Unreadable) else stated
        return charged

    def _terms(self, lease: Lease, kind: str, href: str, result: RobotsResult, kept: Kept, now: float) -> None:
        """End the lease with the contents of a file with terms, or with the time of the next try."""
        name, answer, rules = lease.host.name, result.answer, Rules()
        request = self._charged(result, request_outcome(answer).failure, now)
        wait = self._wait(lease, result, request.retry_after)
        if wait is not None and not (isinstance(answer, Failure) and answer.refusal):
            self._job.robots_later(lease, wait, now, request)
            return
        if isinstance(answer, Response) and 200 <= answer.status < 300:
            read = self._context.reading.read(read_terms, kind, answer.body or b"", href)
            rules, why = ([], read.message) if isinstance(read, Unreadable) else read
            if why is not None:
                log.warning("%s: cannot read its %s: %s", name, kind, why)
        robots, stored = self._cache.with_terms(name, {kind: rules})
        self._job.robots_known(lease, RobotsAnswer(stored, robots.until, robots.crawl_delay, request, kept=kept), now)
        self._cache.forget(name)
        self._named.pop(name, None)

    async def _kept(self, result: RobotsResult, now: float) -> Kept:
        """Return what outputs store of all answers, including those of other hosts."""
        if self._archive is None or not result.exchanged:
            return ()
        later = now - asyncio.get_running_loop().time()
        return await self._archive.robots(
            [(each.address, later + each.ended - each.seconds, each.raw) for each in result.exchanged]
        )

    async def _is_our_fault(self, lease: Lease, href: str, result: RobotsResult | NotNow, now: float) -> bool:
        """Return whether our own network was down."""
        if isinstance(result, NotNow) or result.redirects or result.last.elsewhere:
            self._line.detector.heard(lease, href)  # the host answered with a redirect
            return not isinstance(result, NotNow) and isinstance(result.answer, Failure) and self._line.detector.holds
        return await self._line.is_at_fault(lease, href, result.answer, now)

    def _refused(self, lease: Lease, result: RobotsResult, refusal: Refusal, now: float) -> None:
        """Refuse the host's URLs, because one of our own rules forbids its robots.txt or the target of its redirect."""
        frontier = self._job.frontier
        asked = RequestOutcome(result.seconds, result.received) if result.redirects else None
        frontier.refused.remember(lease.host.name, refusal, now + REFUSED_FOR)
        self._job.change_hosts(lambda batch: frontier.finish(lease, SideRequestDone(asked), now, batch))

    def _wait(self, lease: Lease, result: RobotsResult, after: float | None) -> float | None:
        """Return the seconds until robots.txt is requested again; None if this answer is final. ``after``: the seconds
        for which the host asks to wait."""
        host, settings, failed = lease.host, self._settings, isinstance(result.answer, Failure)
        failure, tries = request_outcome(result.answer).failure, host.politeness.robots_tries + 1
        failed_as = failure if failed and failure is not None else FailureClass.SERVER_ERROR
        # Retry as often as the class of failure allows, even if another try is unlikely to succeed.
        if not (failed or result.says_nothing) or tries >= tries_of(failed_as, settings.retry):
            return None
        return max(retry_wait(tries, settings.retry, host.name), cut_retry_after(after or 0.0, settings.politeness))

    def _say_when(self, lease: Lease, answer: Response | Failure, now: float) -> None:
        """Log when robots.txt will be requested again. That may be later than the retry wait, if the host is held for
        longer."""
        host, failed = lease.host, isinstance(answer, Failure)
        if host.politeness.robots_tries == 1 and not (failed and self._line.seeds.covers(lease)):
            why = answer.error if isinstance(answer, Failure) else str(answer.status)
            log.warning("%s: robots.txt is retried in %.0f s: %s", host.name, host.politeness.next_time - now, why)

    def _known(self, lease: Lease, href: str, robots: Robots, answer: RobotsAnswer, now: float) -> None:
        name = lease.host.name
        via, named = robots_url(href), robots.rules.sitemaps if self._settings.links.sitemaps else ()
        inside = self._discovery.named_sitemaps(href, named)
        sitemaps = Found(inside, SITEMAP_DEPTH, via, found_at=now, sitemaps=True)
        self._tell(name, robots)
        closed = None
        if robots.unreachable and robots.copy_of is None and (refusal := robots.refusal(href)) is not None:
            rule, _, words = refusal.words.partition(": ")
            closed = HostClosed(rule, words, failed=not refusal.lasting)
        self._cache.forget(name)
        self._job.robots_known(lease, replace(answer, sitemaps=sitemaps, closed=closed), now)
        self._cache.keep(name, robots)

    def _tell(self, name: str, robots: Robots) -> None:
        counters, rules = self._job.counters, robots.rules
        if rules.cut:
            counters.robots_cut += 1
            log.warning("%s: robots.txt is read in part: %s", name, "; ".join(rules.cut))
        if robots.copy_of is not None:
            counters.robots_stale += 1
            if not robots.stands_in:
                log.warning("%s: %s; the last good copy is used", name, robots.answer_words)
        elif robots.unreachable:
            counters.robots_unreachable += 1

    def _come_back(self, lease: Lease, wait: float, now: float) -> None:
        frontier = self._job.frontier
        self._job.change_hosts(lambda batch: frontier.finish(lease, RobotsLater(wait, counts=False), now, batch))
