"""Visit: a lease -> robots.txt -> fetched -> outlinks discovered -> record written, done.

Whatever a server or network does is returned as a value and ends up as a record. A visit ends every lease in a
transaction of the job, without an await in it, or releases it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.archiving import Archive
from crawler.engine.context import Context
from crawler.engine.describing import payload_digest
from crawler.engine.discover import Discovery, Likeness, Outlinks, listed_depth, some_of, together
from crawler.engine.handing_over import OwnCode
from crawler.engine.judge import as_not_found, by_text, judge, partial_answer
from crawler.engine.keeping import BodyKeeper, Keepers
from crawler.engine.on_disk import OnDisk
from crawler.engine.page_handler import Withdrawn
from crawler.engine.page_reader import PageReader
from crawler.engine.reading import Unreadable
from crawler.engine.robots_visit import REFUSED_FOR, RobotsVisits
from crawler.engine.understanding import PageFacts, Understanding
from crawler.frontier.cookie_chain import Link, lengthened, link_of
from crawler.frontier.entry import CRASHES_MOST, Entry
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import AddressKnown, Lease
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.traps.challenges import BODY_MOST as CHALLENGE_MOST
from crawler.frontier.traps.challenges import Challenge, challenge_by_markup
from crawler.frontier.traps.soft404 import Judgement, PageKind
from crawler.inspect.statistics import Rated
from crawler.job.event_log import tell_learned
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.parsing_notes import ParsingNotes
from crawler.job.records import Kept, Outcome, PageRecord, url_kind
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import NOT_REQUESTED, Again, Finished, Throttled, Verdict
from crawler.url.refusal.own_rules import Refusal
from crawler.url.scope.boundary import Outside
from crawler.url.scope.bounds import NOTHING_LEFT_OUT, LeftOut, Limit
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.extract.edges import Edge
from crawler.web.fetch import ACCEPT_MARKDOWN, Failure, FailureKind, Followed, NotNow, Response, is_html, with_own
from crawler.web.links.extract import PageLinks
from crawler.web.links.headers import FEED, MARKDOWN
from crawler.web.links.markdown import is_markdown
from crawler.web.links.refresh import Refresh
from crawler.web.links.sitemap import (
    FEED_TYPES,
    XML_TYPES,
    Listed,
    Sitemap,
    SitemapForm,
    called_sitemap,
    is_page,
    named_like_sitemap,
)
from crawler.web.links.sitemap import (
    TYPES as SITEMAP_TYPES,
)
from crawler.web.links.text import text_digest
from crawler.web.parsing.wire import Kind, SitemapRead, decode_listed

if TYPE_CHECKING:
    from crawler.engine.rendering.page_rendering import PageRendering

log = logging.getLogger("crawler")

T = TypeVar("T")

NOT_FOUND = "its host sends the same page for paths that do not exist (traps.soft404)"
MADE_UP = "made up by the crawler, to learn what the host sends for paths that do not exist (traps.soft404)"
APPLICATION = "its host sends one page for every path, as single-page applications do; links not followed"
NEEDS_COOKIES = "redirects to itself and sets a cookie: with fetch.cookies = true it is asked for again"
SOME_NEED_COOKIES = "some URLs redirect to themselves and set a cookie: fetch.cookies = true lets the crawl in"
OTHER_COOKIES = "redirect to another partition, which does not have the cookies of this one"
MOVES_WITHIN = 10  # seconds after which a refresh of a seed still means that it has moved
NO_URLS = "robots.txt or an index calls this a sitemap, but it lists no URL"
LARGE = 512 * 1024  # bytes of a page above which it is kept in a file while its text is waited for
LONG = 256 * 1024  # bytes of a page above which it lends its slot while its pieces wait for their turns
USUAL_PARTS = 2  # of the links of a page, which go before those of sitemaps and of larger pages
NO_LINKS = Outlinks(0, [])
LISTED_A_STEP = 250  # URLs of a sitemap that are judged and admitted in one go: a hundredth of a second


class Visitor:
    """Visits the URLs of one run over a job."""

    def __init__(
        self,
        job: Job,
        discovery: Discovery,
        robots: RobotsVisits,
        settings: Settings,
        context: Context,
    ) -> None:
        self._job = job
        self._discovery = discovery
        self._robots = robots
        self._understanding = Understanding(settings)
        links = self._understanding.links
        self._reader = PageReader(ParsingNotes(job.directory), context.parser, links, context.reading)
        most = settings.output.store_max_size
        bodies = BodyKeeper(job.files.outputs.bodies, most)
        self._keepers = Keepers.of(settings.output, Archive(job.store, most), bodies, context.texts)
        self._code = OwnCode.of(job, discovery, settings.hooks.relevant_score, context)
        self._rendering: PageRendering | None = None
        self._context = context
        self._unruled: set[str] = set()  # URLs that robots.txt has not been asked about
        self.under_way: dict[str, float] = {}  # URLs in flight, with their start times (seconds since 1970)
        self.side_requests: dict[str, float] = {}  # the same of hosts whose robots.txt or address is asked for
        self.last_seed_error: str | None = None  # why the last failed seed could not be fetched
        self._render(settings)

    def change(self, settings: Settings) -> None:
        """Go on with other tries, patterns and rules of hosts."""
        self._understanding = Understanding(settings)
        self._render(settings)
        self._discovery.change(settings)
        self._robots.change(settings)

    def _render(self, settings: Settings) -> None:
        """Render the pages that these settings say."""
        if self._rendering is not None:
            self._rendering.change(settings)
        elif Sites(settings).rendered:
            from crawler.engine.rendering.page_rendering import rendering_of  # noqa: PLC0415, few crawls render pages

            keep = self._understanding.keep if "warc" in settings.output.keep else None
            self._rendering = rendering_of(self._robots, self._discovery, settings, keep)

    async def robots_for_another(self, address: str) -> Followed | NotNow:
        """Fetch an address of this partition, to which a robots.txt of another partition redirects."""
        return await self._robots.for_another(address)

    def refuse(self, lease: Lease) -> bool:
        """Finish a URL without a request if a pattern or robots.txt disallows it or its host is closed. Returns whether
        it did."""
        entry = lease.entry
        if entry is None:
            return False
        if lease.closed is not None:
            outcome = Outcome.FAILED if lease.closed.failed else Outcome.EXCLUDED
            self._finish_unasked(lease, entry, outcome, lease.closed)
            return True
        if entry.crashes >= CRASHES_MOST:
            died = Unreadable(f"the crawler died {entry.crashes} times while it read the page")
            self._finish_unasked(
                lease, entry, Outcome.FAILED, died.error, RequestOutcome(failure=FailureClass.INTERNAL)
            )
            return True
        found = entry.via is not None and not (entry.seed or entry.revisit or entry.last or entry.probe)
        if found and (refusal := self._job.traps.refusal_of_queued(entry.href)) is not None:
            why = HostClosed(refusal.rule.value, refusal.why, refusal=refusal)
            self._finish_unasked(lease, entry, Outcome.EXCLUDED, why)
            return True
        rule = self._discovery.excluded(entry)
        if rule is not None:
            self._finish_unasked(lease, entry, Outcome.EXCLUDED, rule, left=LeftOut({Limit.EXCLUDE: 1}, entry.depth))
            return True
        if not self._robots.at_hand(lease.host.name):
            self._unruled.add(entry.href)  # a long robots.txt is parsed aside, during the visit
            return False
        return self._refuse_by_robots(lease, entry)

    def _refuse_by_robots(self, lease: Lease, entry: Entry) -> bool:
        self._unruled.discard(entry.href)
        refusal = self._robots.refusal(lease.host.name, entry.href)
        if refusal is None:
            return False
        why, words = refusal
        self._finish_unasked(lease, entry, Outcome.EXCLUDED if why.lasting else Outcome.FAILED, words)
        return True

    async def _refused_late(self, lease: Lease, entry: Entry) -> bool:
        """Do what ``refuse`` left undone because the rules of the host were not at hand."""
        if entry.href not in self._unruled:
            return False
        while not self._robots.at_hand(lease.host.name):  # they may be dropped again while there is no room
            await self._robots.prepare(lease.host.name)
            await self._job.room()
        return self._refuse_by_robots(lease, entry)

    def _finish_unasked(
        self,
        lease: Lease,
        entry: Entry,
        outcome: Outcome,
        why: str | HostClosed,
        request: RequestOutcome = NOT_REQUESTED,
        left: LeftOut | None = None,
    ) -> None:
        error, refusal = (why, None) if isinstance(why, str) else (why.error, why.refusal)
        tried = self._understanding.describer.unasked(entry)
        record = PageRecord(entry, outcome, self._context.clock(), error=error, exchanged=tried, refusal=refusal)
        self._seed_failed(record)
        self._job.finish(lease, Finished(record, request, requested=False, left=left), record.fetched_at)

    def _refused(self, lease: Lease, entry: Entry, refusal: Refusal) -> None:
        """Finish a URL whose request was refused before it was made. The other URLs of the host end like it, without
        waiting for its gap."""
        self._job.frontier.refused.remember(lease.host.name, refusal, self._context.clock() + REFUSED_FOR)
        closed = HostClosed(refusal.rule.value, refusal.words, refusal=refusal)
        self._finish_unasked(lease, entry, Outcome.EXCLUDED, closed)

    def close(self) -> None:
        """No visit is under way any more."""
        self._reader.close()

    @property
    def elsewhere(self) -> str | None:
        """See ``Discovery``."""
        return self._discovery.elsewhere

    @property
    def harvest(self) -> Rated | None:
        """The last pages that code of the user rated; None if none does."""
        return None if self._code.focus is None else self._code.focus.recent

    @property
    def parsed(self) -> dict[str, int]:
        """How the pages of this run were parsed."""
        return self._reader.parsed

    async def visit(self, lease: Lease) -> None:
        """Carry out a lease to its end. If cancelled, release it."""
        self._context.slots.begin(partial(self._lend, lease))
        if lease.entry is not None:
            self.under_way[lease.entry.href] = lease.taken_at
        else:
            self.side_requests[lease.host.name] = lease.taken_at
        try:
            if lease.address:
                await self._find_address(lease)
            elif lease.entry is None:
                await self._robots.visit(lease)
            elif not await self._refused_late(lease, lease.entry):
                await self._visit_url(lease, lease.entry)
                if self._keepers is not None and lease in self._keepers.untexted:
                    await self._finish_with_text(lease)
        except Withdrawn:
            self._job.frontier.release(lease)
        except asyncio.CancelledError:
            # Cancellation happens only at an await, and the transaction that ends a lease has none.
            self._job.frontier.release(lease)
            raise
        finally:
            self._context.slots.end()
            if lease.entry is not None:
                del self.under_way[lease.entry.href]
            else:
                del self.side_requests[lease.host.name]

    def _lend(self, lease: Lease, lent: bool) -> None:
        self._job.frontier.lend(lease, lent)
        self._context.wake()  # another host of its kind may have the slot

    async def _visit_url(self, lease: Lease, entry: Entry) -> None:
        declared = self._understanding.links.sitemaps and not entry.is_leaf and self._is_declared(entry)
        read_by_crawl = self._read_by_crawl(entry, declared)
        headers = conditions = self._job.revisiting.conditions(entry)
        if MARKDOWN in self._understanding.links.kinds and not entry.is_leaf:
            read_by_crawl = _either(read_by_crawl, is_markdown)
            if not (named_like_sitemap(entry.href) or declared):
                headers = {"Accept": ACCEPT_MARKDOWN, **headers}
        if self._context.code.headers is not None:
            headers = with_own(headers, await self._context.code.headers(entry.href))
        code = self._code.handing_over
        wanted = read_by_crawl if code is None else _either(read_by_crawl, code.wants_body)
        fetch, keep = self._context.fetcher.fetch, self._understanding.keep
        if entry.is_leaf and self._understanding.links.external:
            read = partial(fetch, accept=_either(wanted, is_html), max_body=CHALLENGE_MOST, truncate=True)
        else:
            read = partial(fetch, accept=wanted, keep=keep)
        result = await read(entry.href, headers=headers)
        if isinstance(result, Failure):
            result = partial_answer(entry, result, self._understanding.retry) or result
        await self._turn()
        now = self._context.clock()
        if isinstance(result, Failure):
            if result.refusal is not None:
                self._refused(lease, entry, result.refusal)
                return
            at_fault = result.partial is None and await self._robots.borrowing.line.is_at_fault(
                lease, entry.href, result, now
            )
            await self._job.room()
            if at_fault:
                self._job.take_back(lease, self._context.clock())
                return
        else:
            self._robots.borrowing.line.detector.heard(lease, entry.href, now)
        match self._verdict(entry, result, now, conditional=bool(conditions)):
            case Finished(location=None, record=PageRecord(status=None)) as failed:
                self._seed_failed(failed.record)
                too_large = isinstance(result, Failure) and result.kind is FailureKind.TOO_LARGE
                left = LeftOut({Limit.MAX_BODY: 1}, entry.depth) if too_large else None
                await self._finish(lease, replace(failed, left=left))
            case Finished() as finished:
                if self._understanding.describer.wants_digest and finished.response is not None:
                    finished = await self._with_digest(finished, finished.response)
                record, answered = finished.record, finished.record.outcome is Outcome.FETCHED
                if declared and answered and record.status != NOT_MODIFIED and record.error is None:
                    finished = replace(finished, record=replace(record, error=NO_URLS))  # until some are found
                await self._finish_answered(lease, finished, read_by_crawl)
            case Again() as again:
                self._job.retry(lease, again, now)
            case Throttled(last=None) as throttled:
                self._job.throttle(lease, throttled, now)
            case Throttled(last=PageRecord() as record) as throttled:
                last = Finished(record, throttled.request, raw=result.raw)
                await self._finish_throttled(lease, throttled, last)

    async def _turn(self, *, bulk: bool = False) -> None:
        """Wait until a piece of work may begin, and a transaction in it. ``bulk``: see ``Turns``."""
        await self._context.turns.turn(bulk=bulk)
        await self._job.room()

    def _verdict(self, entry: Entry, result: Response | Failure, now: float, *, conditional: bool) -> Verdict:
        """Return what an exchange means for its URL. One that cannot be read has failed."""
        understanding, read = self._understanding, self._context.reading.read
        is_compared = self._job.revisiting.wants_answer(entry)
        verdict = read(understanding.verdict, entry, result, now, is_compared, conditional)
        if not isinstance(verdict, Unreadable):
            return verdict
        failed = judge(entry, verdict.failure(result.seconds), now, understanding.retry)
        described = read(understanding.described, failed, entry, result)
        return failed if isinstance(described, Unreadable) else described

    async def _with_digest(self, finished: Finished, response: Response) -> Finished:
        """Add the digest of a body to its record."""
        record = finished.record
        if response.body is None:
            return finished
        digest = await self._aside(payload_digest(response.body))
        return replace(finished, record=replace(record, profile=record.profile._replace(payload_digest=digest)))

    async def _finish_answered(
        self, lease: Lease, finished: Finished, read_by_crawl: Callable[[str | None], bool]
    ) -> None:
        body = finished.body
        if finished.location is not None:
            await self._finish_redirect(lease, finished)
        elif finished.heading.challenge is not None:
            await self._finish_blocked(lease, finished, finished.heading.challenge)
        elif (
            finished.record.entry.is_leaf
            and body is not None
            and (challenge := challenge_by_markup(body, body.count(b"<a ")))
        ):
            await self._finish_blocked(lease, finished, challenge)
        elif body is None or not read_by_crawl(finished.record.content_type):
            self._seed_failed(finished.record)
            await self._finish_other(lease, finished)
        else:
            await self._finish_page(lease, finished, body)

    async def _finish_page(self, lease: Lease, finished: Finished, body: bytes) -> None:
        markdown = is_markdown(finished.record.content_type)
        may_list = self._understanding.links.sitemaps and not (markdown or is_page(body))
        if may_list and await self._was_sitemap(lease, finished, body):
            return
        if not (markdown or is_html(finished.record.content_type)):
            await self._finish_other(lease, finished)
            return
        facts = await self._told(lease, finished, body, markdown=markdown)
        if self._rendering is not None and not (markdown or isinstance(facts, Unreadable)):
            rendered = await self._rendering.render(lease, finished, facts)
            if rendered is None:
                return
            finished = rendered
            if finished.record.rendered is not None and finished.body is not None:
                raw, body, before = body, finished.body, facts
                facts = await self._told(lease, finished, body, added=self._rendering.with_ways)
                if not isinstance(facts, Unreadable):
                    finished = self._rendering.learned(lease, finished, before, raw, facts)
                    facts = replace(facts, profile=facts.profile._replace(charset=before.profile.charset))
        if len(body) > LONG:
            with self._context.slots.wait():
                await self._finish_html(lease, finished, body, facts)
        else:
            await self._finish_html(lease, finished, body, facts)

    async def _told(
        self,
        lease: Lease,
        finished: Finished,
        body: bytes,
        *,
        markdown: bool = False,
        added: Callable[[Finished, PageLinks], PageLinks] | None = None,
    ) -> PageFacts | Unreadable:
        """Return what a page says, or the document that was made of it, whose links ``added`` completes."""
        links = None if markdown else self._reader.links_here(lease, body, finished.charset)
        if links is None:
            kind = Kind.MARKDOWN if markdown else Kind.TREE
            links = await self._reader.links_elsewhere(lease, body, finished.charset, kind)
            await self._turn()
        if isinstance(links, Unreadable):
            return links
        if added is not None:
            links = added(finished, links)
        return self._context.reading.read(self._understanding.page, self._discovery, finished, links)

    async def _aside(self, work: Generator[None, None, T]) -> T:
        """Do the work on a page step by step, and let the event loop turn meanwhile if it is long. A transaction may
        begin then."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                return cast("T", end.value)
            await asyncio.sleep(0)
            await self._turn(bulk=True)

    async def _compared_by_text(self, finished: Finished, body: bytes) -> Finished:
        """The answer that is compared with those of other visits is the text of the page. A page without text keeps its
        bytes."""
        answer = finished.answer
        if answer is None or is_markdown(finished.record.content_type):
            return finished
        digest = await self._aside(self._context.reading.steps(text_digest(body, finished.charset)))
        if digest is None or isinstance(digest, Unreadable):
            return finished
        return replace(finished, answer=by_text(answer, finished.record.status, digest))

    async def _finish_html(self, lease: Lease, finished: Finished, body: bytes, facts: PageFacts | Unreadable) -> None:
        entry = finished.record.entry
        content = await self._aside(self._discovery.measure(body))
        by_text = self._understanding.by_text or finished.rendering is not None
        if by_text:
            finished = await self._compared_by_text(finished, body)
        if by_text or len(body) > LONG:
            await self._turn()
        if isinstance(facts, Unreadable):
            await self._finish_unreadable(lease, finished, facts)
            return
        challenge, record = facts.challenge, replace(finished.record, profile=facts.profile)
        if challenge is not None and not challenge.login:
            await self._finish_blocked(lease, replace(finished, record=record), challenge)
            return
        record = replace(record, robots=facts.robots)
        if self._understanding.headings.follows(facts.robots):
            moved = self._refreshed(lease, replace(finished, record=record), facts.refresh, facts.base)
            if moved is None:
                return
            finished, record = moved, moved.record
        finished = replace(finished, record=record)
        if isinstance(content, Unreadable):
            await self._finish_unreadable(lease, finished, content)
            return
        likeness = self._discovery.compare(entry, body, facts.written, content)
        parts: Iterable[Outlinks | Unreadable] = self._discovery.outlinks(entry, facts.links, facts.base, likeness)
        if self._code.focus is not None:
            rated = _is_itself(entry, likeness, challenge)
            finished, parts = await self._code.focus.page(lease, finished, parts, rated=rated)
        found = await self._discovered(entry, parts)
        if isinstance(found, Unreadable):
            await self._finish_unreadable(lease, finished, found)
            return
        record = _as_read(finished.record, facts.links, likeness, found.found)
        if likeness.is_followed:
            left = _left_out(facts.links, found, entry.depth + 1)
        else:
            left = LeftOut({Limit.DUPLICATES if likeness.of_copy else Limit.SOFT404: found.found}, entry.depth + 1)
        sights = self._discovery.look(entry, body, facts.links, likeness.content)
        finished = replace(finished, record=record, left=left, is_page=True, sights=sights)
        finished = self._judged(finished, likeness.judged)
        record = finished.record
        if challenge is None and record.outcome is Outcome.FETCHED and not entry.probe and (record.status or 0) < 300:
            finished = replace(finished, record=replace(record, needs_scripts=facts.needs_scripts))
        if challenge is not None:
            finished = _blocked(finished, challenge)
            self._seed_failed(finished.record)
        await self._finish(lease, finished, found)

    async def _discovered(self, entry: Entry, parts: Iterable[Outlinks | Unreadable]) -> Outlinks | Unreadable:
        """Admit the links of a page, but for its last part. Returns that part, with the counts of all."""
        job, found = self._job, list[Outlinks]()
        for number, part in enumerate(parts):
            if number:
                last = found[-1]
                if last.inside:
                    now, depth = self._context.clock(), entry.depth + 1
                    job.admit(
                        Found(last.inside, depth, entry.href, found_at=now, reach=last.reach, classes=last.classes)
                    )
                self._context.wake()
                await asyncio.sleep(0)
                await self._turn(bulk=number > USUAL_PARTS)
            if isinstance(part, Unreadable):
                return part
            found.append(part)
        return found[0] if len(found) == 1 else together(found)

    async def _finish_blocked(self, lease: Lease, finished: Finished, challenge: Challenge) -> None:
        """Finish what bars the crawler from the page. Nothing on it belongs to the site."""
        finished = _blocked(finished, challenge)
        self._seed_failed(finished.record)
        await self._finish(lease, finished)

    def _judged(self, finished: Finished, judged: Judgement) -> Finished:
        """Add to a page what it shows about the host's answers to paths that do not exist."""
        record, lesson = finished.record, judged.lesson
        if judged.kind is PageKind.NOT_FOUND:
            record = replace(record, outcome=Outcome.SOFT404, error=MADE_UP if record.entry.probe else NOT_FOUND)
            if finished.answer is not None:
                finished = replace(finished, answer=as_not_found(finished.answer))
        elif judged.kind is PageKind.APPLICATION:
            record = replace(record, error=APPLICATION)
        if lesson is None:
            return replace(finished, record=record)
        words = tell_learned(self._job.events, lesson, record.fetched_at)
        if words is not None:
            log.warning("%s %s", lesson.host, words)
        probe = None if lesson.probe is None else self._discovery.probe(lesson.probe)
        return replace(finished, record=record, lesson=lesson, probe=probe)

    async def _finish_other(self, lease: Lease, finished: Finished) -> None:
        """Finish what is no page. Its headers may name links."""
        record, links = finished.record, NO_LINKS
        if record.status != NOT_MODIFIED:
            finished = replace(finished, left=NOTHING_LEFT_OUT)
        leads_on = not (record.entry.probe or record.entry.is_leaf)
        if finished.heading.hrefs and leads_on and self._understanding.headings.follows(record.robots):
            moved = self._refreshed(lease, finished, finished.heading.refresh, record.entry.href)
            if moved is None:
                return
            finished, record = moved, moved.record
            stated = self._discovery.stated(record.entry, finished.heading.hrefs)
            if isinstance(stated, Unreadable):
                await self._finish_unreadable(lease, finished, stated)
                return
            links = stated if self._code.focus is None else await self._code.focus.links(lease, finished, stated)
            left = LeftOut.of(links.outside, record.entry.depth + 1)
            finished = replace(finished, record=replace(record, links=links.found), left=left)
        await self._finish(lease, finished, links)

    async def _finish_unreadable(self, lease: Lease, finished: Finished, why: Unreadable) -> None:
        """Finish a page that the crawler could not read. It answered, so its host is not blamed."""
        record = replace(finished.record, outcome=Outcome.FAILED, error=why.error)
        request = finished.request._replace(failure=FailureClass.INTERNAL)
        self._seed_failed(record)
        await self._finish(lease, replace(finished, record=record, request=request, answer=None))

    def _read_by_crawl(self, entry: Entry, declared: bool) -> Callable[[str | None], bool]:
        """Return the test for the content types of the bodies that the crawl itself reads.

        The types of sitemaps are common, also for large files, so they are wanted only if the URL may be a sitemap."""
        if entry.is_leaf:
            return _is_nothing
        if not self._understanding.links.sitemaps:
            return is_html
        if declared:
            return _is_page_or_any_sitemap
        feeds = FEED in self._understanding.links.kinds
        if named_like_sitemap(entry.href):
            return _is_page_or_any_sitemap if feeds else _is_page_or_sitemap
        return _is_page_or_xml if entry.seed or feeds else is_html

    def _is_declared(self, entry: Entry) -> bool:
        """Return whether robots.txt or a sitemap index lists the URL as a sitemap. A page may have linked to it
        first."""
        return entry.sitemap or self._robots.declares(entry.href)

    def _is_sitemap(self, entry: Entry, form: SitemapForm) -> bool:
        """Return whether a body that looks so is a sitemap. A feed or a plain text is one only if it is named or listed
        as one, because many documents look like them."""
        match form:
            case SitemapForm.LISTING:
                return True
            case SitemapForm.FEED:
                return entry.seed or FEED in self._understanding.links.kinds or self._is_declared(entry)
            case SitemapForm.TEXT | SitemapForm.LOOSE:
                return called_sitemap(entry.href) or self._is_declared(entry)
            case _:
                return False

    async def _was_sitemap(self, lease: Lease, finished: Finished, body: bytes) -> bool:
        """Finish the URL if its body is a sitemap, or cannot be read. Returns whether it did."""
        entry, charset = finished.record.entry, finished.charset
        read = await self._reader.form(lease, body, charset)
        if not self._robots.at_hand(lease.host.name):
            await self._robots.prepare(lease.host.name)  # it was dropped from memory meanwhile
        await self._job.room()
        if isinstance(read, Unreadable):
            await self._finish_unreadable(lease, finished, read)
            return True
        form = read.form if isinstance(read, SitemapRead) else read
        if not self._is_sitemap(entry, form):
            return False
        with self._context.slots.wait():
            if isinstance(read, SitemapRead):
                await self._finish_sitemap(lease, finished, read, map(decode_listed, read.parts))
            else:
                sitemap = Sitemap(body, self._understanding.links, charset)
                await self._finish_sitemap(lease, finished, sitemap, iter(sitemap))
        return True

    async def _finish_sitemap(
        self, lease: Lease, finished: Finished, sitemap: Sitemap | SitemapRead, pieces: Iterator[Sequence[Listed]]
    ) -> None:
        entry, job, found, outside = finished.record.entry, self._job, 0, Counter[Outside]()
        unread = list[str]()
        for listed in self._reader.pieces(lease, pieces):
            if isinstance(listed, Unreadable):
                await self._finish_unreadable(lease, finished, listed)
                return
            for part in _parts(listed):
                links = await self._admit_listed(entry, part, index=sitemap.is_index)
                if isinstance(links, Unreadable):
                    await self._finish_unreadable(lease, finished, links)
                    return
                found += links.found
                outside.update(links.outside)
                if sitemap.is_index:
                    inside = {url.href for url in links.inside}
                    unread += [url.href for url in links.urls if url.href not in inside]
        job.counters.sitemaps += 1
        known = finished.record.entry
        finished = replace(finished, record=replace(finished.record, entry=known._replace(sitemap=True)))
        cut = sitemap.fault or finished.cut
        fault = None if cut is None else f"sitemap read in part: {cut}"
        errors = [fault, f"sitemaps that are not read: {some_of(unread)}" if unread else None]
        errors.append(None if found and finished.record.error == NO_URLS else finished.record.error)
        error = "; ".join(filter(None, errors)) or None
        record = replace(finished.record, links=found, links_cut=fault is not None, error=error)
        by = None if sitemap.limit is None else Limit(sitemap.limit)
        finished = replace(finished, record=record, left=LeftOut.of(outside, listed_depth(entry), cut=by))
        await self._finish(lease, finished)

    async def _admit_listed(self, entry: Entry, listed: Sequence[Listed], *, index: bool) -> Outlinks | Unreadable:
        """Admit the URLs of one part of a sitemap, and let the event loop turn. Returns what it lists."""
        job, links = self._job, self._discovery.sitemap(entry, listed, index=index)
        if isinstance(links, Unreadable):
            return links
        depth = listed_depth(entry)
        if self._code.focus is not None and not index:
            links = await self._code.focus.listed(entry, links, depth)
        if links.inside:
            found = Found(links.inside, depth, entry.href, listing=links.listing, reach=links.reach)
            job.admit(found._replace(found_at=self._context.clock(), classes=links.classes))
        self._context.wake()
        await asyncio.sleep(0)
        await self._turn(bulk=True)
        return links

    async def _finish_redirect(self, lease: Lease, finished: Finished) -> None:
        assert finished.location is not None
        target = self._discovery.redirect(finished.record.entry, finished.location)
        if isinstance(target, Unreadable):
            await self._finish_unreadable(lease, finished, target)
            return
        record = replace(finished.record, outcome=Outcome.REDIRECT, location=target.location, error=target.error)
        if target.inside and not target.error:
            chained = self._chained(lease, finished, target.inside[0])
            if chained is None:
                return
            finished, note = chained
            record = replace(record, error=note)
        inside = [] if record.entry.probe else target.inside
        links = Outlinks(1, inside, outside=target.outside, reach=target.reach, edges=target.edges)
        if self._code.focus is not None:
            links = await self._code.focus.target(lease, finished, links)
        finished = replace(finished, record=record, left=LeftOut.of(links.outside, record.entry.depth))
        await self._finish(lease, finished, links)

    def _refreshed(self, lease: Lease, finished: Finished, refresh: Refresh | None, base: str) -> Finished | None:
        """Follow a refresh like a redirect: one of a seed may widen the scope, and one of no seconds may set a cookie.
        Returns None if the URL is to be tried once more."""
        record, entry = finished.record, finished.record.entry
        if refresh is None or entry.is_leaf or refresh.seconds > (MOVES_WITHIN if entry.seed else 0):
            return finished
        target = self._discovery.redirect(entry, refresh.target or entry.href, base)
        if isinstance(target, Unreadable) or target.error or not target.inside:
            return finished
        url = target.inside[0]
        if not refresh.seconds:
            chained = self._chained(lease, finished, url)
            if chained is None:
                return None
            finished, note = chained
            finished = replace(finished, record=replace(record, error=note or record.error))
        if entry.seed or finished.chain:
            at = None if entry.seed else self._context.clock()
            hops, reach = entry.redirects + 1, target.reach
            self._job.admit(
                Found([url], entry.depth, entry.href, entry.seed, hops, at, reach=reach, chain=finished.chain)
            )
        return finished

    def _chained(self, lease: Lease, finished: Finished, target: Canonical) -> tuple[Finished, str | None] | None:
        """Add to what leads to another URL the chain of redirects, if the crawl keeps cookies, and the target itself if
        it is another try of a URL of that chain. Returns it with a note for the record, or None if the same URL is to
        be tried once more."""
        entry, response = finished.record.entry, finished.response
        assert response is not None  # it leads on
        if response.cookies is None:
            returns = target.href == entry.href or (entry.redirects and target.href == entry.via)
            if not (returns and response.values("Set-Cookie")):
                return finished, None
            self._context.said.say(SOME_NEED_COOKIES, NEEDS_COOKIES)
            return finished, NEEDS_COOKIES
        kind = url_kind(Outcome.FETCHED if finished.location is None else Outcome.REDIRECT, finished.record.status)
        chain = lengthened(entry.chain, entry.href, response.cookies, kind)
        before, now = link_of(chain, target.href), self._context.fetcher.cookie_state(target.href)
        bounced = self._job.revisiting.bounced
        if before is None and target.href in bounced:  # known, but it may set a cookie for this URL too
            before = Link(0, 0, bounced[target.href])
        elif before is None or before.cookies == now:
            is_own = self._job.is_own(target)
            return replace(finished, chain=chain), None if is_own else OTHER_COOKIES
        if target.href == entry.href:
            once_more = entry._replace(redirects=entry.redirects + 1, chain=chain)
            cause = "its cookies have changed"
            self._job.retry(lease, Again(once_more, 0.0, cause, finished.request), self._context.clock())
            return None
        hops = entry.redirects + 1
        again = Entry(target.href, entry.depth, entry.href, entry.seed, hops, last=before.kind, chain=chain)
        return replace(finished, chain=chain, again=again), None

    async def _finish(self, lease: Lease, finished: Finished, links: Outlinks = NO_LINKS) -> None:
        """Finish a URL that was answered, with its last links, and keep of it what outputs want."""
        if self._code.changes is not None:
            finished = await self._code.changes.checked(lease, finished, links)
        code = self._code.handing_over
        if code is None or not code.wants(finished):
            await self._finish_kept(lease, finished, links)
            return
        page, finished, links = await code.hand_over(lease, finished, links)
        with code.finishing(page):
            await self._finish_kept(lease, finished, links)
            if self._keepers is not None and lease in self._keepers.untexted:
                await self._finish_with_text(lease, in_memory=True)  # ``page`` has its body

    async def _finish_kept(self, lease: Lease, finished: Finished, links: Outlinks) -> None:
        """Finish a URL. If its text is to be extracted, ``_finish_with_text`` does so, when all that has been called
        for the page has returned."""
        if self._keepers is not None and finished.is_kept:
            if self._keepers.takes_long(finished):
                may_wait = self._keepers.may_wait(lease.host.name, 2 * self._context.capacity().slots)
                if may_wait and not lease.left:
                    self._job.frontier.answered(lease, finished.request, self._context.clock())
                    self._context.wake()
                self._keepers.untexted[lease] = finished, links
                return
            finished = replace(finished, kept=await self._kept(self._keepers, finished, links.edges))
        self._end(lease, finished, links)

    async def _finish_with_text(self, lease: Lease, *, in_memory: bool = False) -> None:
        """Finish a page when its text is extracted. Nobody else has its body any more. A large one is in a file until
        then, and one at a time comes back into memory, if other outputs want it. ``in_memory``: it stays there."""
        assert self._keepers is not None
        finished, links = self._keepers.untexted.pop(lease)
        with self._keepers.wait(lease.host.name), self._context.slots.wait():
            page: OnDisk | None = None
            if len(finished.body or b"") > LARGE and not in_memory and finished.rendering is None:
                with contextlib.suppress(OSError):  # no room on the disk: it waits in memory
                    page = await asyncio.to_thread(OnDisk.of, finished, self._job.directory)
            if page is None:
                assert finished.body is not None
                text, language = await self._keepers.text(finished, finished.body)
                finished = replace(finished, kept=await self._kept(self._keepers, finished, links.edges, text))
            else:
                finished = page.finished
                self._context.fetcher.let_go()
                text, language = await self._keepers.text(finished, page.body)
                async with self._keepers.large:
                    kept = await self._kept(self._keepers, page.whole(), links.edges, text)
                finished = replace(finished, kept=kept)
        record = self._understanding.describer.detected(finished.record, language)
        self._end(lease, replace(finished, record=record), links)

    def _end(self, lease: Lease, finished: Finished, links: Outlinks) -> None:
        if links.classes:
            finished = replace(finished, classes=links.classes)
        self._job.finish(
            lease,
            finished,
            self._context.clock(),
            outlinks=links.inside,
            left_out=links.left_out,
            reach=links.reach,
        )

    async def _kept(self, keepers: Keepers, finished: Finished, edges: Sequence[Edge] = (), text: Kept = ()) -> Kept:
        kept = await keepers.keep(finished, edges, text)
        await self._job.room()
        return kept

    async def _finish_throttled(self, lease: Lease, throttled: Throttled, answer: Finished) -> None:
        """Hold the host, and keep of its last answer to a URL what outputs want."""
        if self._keepers is not None:
            throttled = replace(throttled, kept=await self._kept(self._keepers, answer))
        self._job.throttle(lease, throttled, self._context.clock())

    async def _find_address(self, lease: Lease) -> None:
        """Find the address of the host, for politeness by address. No page is requested."""
        frontier = self._job.frontier
        address = await self._context.fetcher.resolve(frontier.peek(lease.host).href)
        await self._job.room()
        now = self._context.clock()
        if address is None and self._robots.borrowing.line.detector.holds:
            self._job.take_back(lease, now)
            return
        self._job.change_hosts(lambda batch: frontier.finish(lease, AddressKnown(address), now, batch))

    def _seed_failed(self, record: PageRecord) -> None:
        if record.entry.seed and record.outcome is not Outcome.FETCHED:
            self.last_seed_error = f"{record.entry.href}: {record.error}"


def _is_itself(entry: Entry, likeness: Likeness, challenge: Challenge | None) -> bool:
    """Whether a page is the one that was asked for, and not one that its host or the crawler put in its place."""
    return challenge is None and not entry.probe and likeness.judged.kind is PageKind.PAGE


def _as_read(record: PageRecord, page: PageLinks, likeness: Likeness, links: int) -> PageRecord:
    """The record of a page with so many links."""
    cut = page.cut
    error = record.error if cut is None else f"page read in part: {cut}"
    links_cut = page.truncated or cut is not None
    return replace(record, links=links, links_cut=links_cut, error=error, content=likeness.content)


def _left_out(page: PageLinks, found: Outlinks, depth: int) -> LeftOut:
    """What limits left out of a page whose links are followed."""
    outside = found.outside
    if page.too_long:
        outside = {**outside, Outside.TOO_LONG: outside.get(Outside.TOO_LONG, 0) + page.too_long}
    return LeftOut.of(outside, depth, cut=Limit.MAX_LINKS if page.truncated else None)


def _blocked(finished: Finished, challenge: Challenge) -> Finished:
    record = replace(finished.record, outcome=Outcome.BLOCKED, error=challenge.words)
    failure = FailureClass.LOGIN if challenge.login else FailureClass.BLOCKED
    return replace(finished, record=record, request=finished.request._replace(failure=failure), answer=None)


def _parts(listed: Sequence[Listed]) -> Iterator[Sequence[Listed]]:
    """The URLs of a piece of a sitemap, some at a time; one part without any where there are none."""
    for start in range(0, max(1, len(listed)), LISTED_A_STEP):
        yield listed[start : start + LISTED_A_STEP]


def _either(one: Callable[[str | None], bool], other: Callable[[str | None], bool]) -> Callable[[str | None], bool]:
    return lambda content_type: one(content_type) or other(content_type)


def _is_nothing(content_type: str | None) -> bool:
    return False


def _is_page_or_sitemap(content_type: str | None) -> bool:
    return is_html(content_type) or content_type in SITEMAP_TYPES


def _is_page_or_xml(content_type: str | None) -> bool:
    return is_html(content_type) or content_type in XML_TYPES or content_type in FEED_TYPES


def _is_page_or_any_sitemap(content_type: str | None) -> bool:
    return _is_page_or_sitemap(content_type) or content_type in FEED_TYPES
