"""Visit: a lease -> robots.txt -> fetched -> outlinks discovered -> record written, done.

All outcomes of servers and networks are values, and end up in a record. A visit ends each lease in a transaction of the
job, which contains no await, or releases it.

A visit fills a ``Draft`` in these steps:

    verdict     the meaning of the exchange for the URL, from its status and headers
    read        the answer, as the first that applies: a redirect, a challenge, a sitemap, a page, another file
    finish      user code is called; then the parts for outputs are made, and the draft is written
    with text   like ``finish``, for a page whose text must be extracted first, after all other uses of its body

A step raises ``TryAgain`` if the URL must be requested again.
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
from crawler.engine.handed_page import Withdrawn
from crawler.engine.judge import as_not_found, by_text, judge, partial_answer
from crawler.engine.keepers import BodyKeeper, Keepers
from crawler.engine.links_and_redirects import Discovery, listed_depth, some_of, together
from crawler.engine.on_disk import OnDisk
from crawler.engine.page_delivery import OwnCode
from crawler.engine.page_reader import PageReader
from crawler.engine.reading import Unreadable
from crawler.engine.robots_visit import REFUSED_FOR, RobotsVisits
from crawler.engine.understanding import PageFacts, Understanding, payload_digest
from crawler.frontier.cookie_chain import Link, lengthened, link_of
from crawler.frontier.entry import CRASHES_MOST, Entry
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import AddressKnown, Lease, Retry
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.traps.challenges import BODY_MOST as CHALLENGE_MOST
from crawler.frontier.traps.challenges import challenge_by_markup
from crawler.frontier.traps.soft404 import Judgement, PageKind
from crawler.inspect.statistics import Rated
from crawler.job.event_log import tell_learned
from crawler.job.found import Found, Outlinks
from crawler.job.job import Job
from crawler.job.parsing_notes import ParsingNotes
from crawler.job.records import Kept, Outcome, PageRecord, url_kind
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import NOT_REQUESTED, Draft, Throttled, TryAgain, Verdict, barred, unread
from crawler.url.consent.statements import stricter
from crawler.url.refusal.forbidden_targets import Refusal
from crawler.url.scope.boundary import Outside
from crawler.url.scope.bounds import NOTHING_LEFT_OUT, LeftOut, Limit
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.fetch import ACCEPT_MARKDOWN, Failure, FailureKind, Response, is_html, with_own
from crawler.web.links.extract import PageLinks
from crawler.web.links.headers import FEED, MARKDOWN
from crawler.web.links.markdown_links import is_markdown
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
MADE_UP = "made up by the crawler, to see what the host sends for paths that do not exist (traps.soft404)"
APPLICATION = "its host sends one page for every path, as single-page applications do; links not followed"
NEEDS_COOKIES = "redirects to itself and sets a cookie; with fetch.cookies = true it is requested again"
SOME_NEED_COOKIES = "some URLs redirect to themselves and set a cookie; set fetch.cookies = true to visit them"
OTHER_COOKIES = "redirect to another partition, which does not have the cookies of this one"
MOVES_WITHIN = 10  # seconds; if a seed refreshes after at most this time, the seed has moved
NO_URLS = "robots.txt or an index calls this a sitemap, but it lists no URL"
LARGE = 512 * 1024  # bytes; a larger page is kept in a file while it waits for its text
LONG = 256 * 1024  # bytes; a larger page lends its slot while its pieces wait for their turns
USUAL_PARTS = 2  # number of parts of a page's links that are processed ahead of sitemaps and large pages
LED_ON = frozenset((Outcome.FETCHED, Outcome.REDIRECT, Outcome.SOFT404))  # outcomes of a seed that has not failed
LISTED_A_STEP = 250  # URLs of a sitemap that are judged and admitted at once, in a hundredth of a second


class Visitor:
    """Visits the URLs of one run."""

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
        self.robots = robots
        self._understanding = Understanding(settings)
        links = self._understanding.links
        self._reader = PageReader(ParsingNotes(job.directory), context.parser, links, context.reading)
        most = settings.output.store_max_size
        bodies = BodyKeeper(job.files.outputs.bodies, most)
        self._keepers = Keepers.of(settings.output, Archive(job.store, most), bodies, context.texts)
        self._code = OwnCode.of(job, discovery, settings.hooks.relevant_score, context)
        self._rendering: PageRendering | None = None
        self._context = context
        self._unruled: set[str] = set()  # URLs not yet checked against robots.txt
        self.under_way: dict[str, float] = {}  # URLs in flight, with their start times (seconds since 1970)
        self.side_requests: dict[str, float] = {}  # hosts whose robots.txt or address is requested
        self.last_seed_error: str | None = None  # why the last failed seed could not be fetched
        self._render(settings)

    def change(self, settings: Settings) -> None:
        """Apply changed settings: numbers of tries, patterns, and rules for hosts."""
        self._understanding = Understanding(settings)
        self._render(settings)
        self._discovery.change(settings)
        self.robots.change(settings)

    def _render(self, settings: Settings) -> None:
        """From now on, render the pages that these settings select."""
        if self._rendering is not None:
            self._rendering.change(settings)
        elif Sites(settings).rendered:
            from crawler.engine.rendering.page_rendering import PageRendering  # noqa: PLC0415, few crawls render pages

            keep = self._understanding.keep if "warc" in settings.output.keep else None
            self._rendering = PageRendering(self.robots, self._discovery, settings, keep)

    def refuse(self, lease: Lease) -> bool:
        """Finish a URL without a request if a pattern or robots.txt disallows it or its host is closed. Returns whether
        the URL was finished."""
        entry = lease.entry
        if entry is None:
            return False
        if lease.closed is not None:
            outcome = Outcome.FAILED if lease.closed.failed else Outcome.EXCLUDED
            self._unasked(lease, entry, outcome, lease.closed)
            return True
        if entry.crashes >= CRASHES_MOST:
            died = Unreadable(f"the crawler crashed {entry.crashes} times while it read the page")
            self._unasked(lease, entry, Outcome.FAILED, died.error, RequestOutcome(failure=FailureClass.INTERNAL))
            return True
        found = entry.via is not None and not (entry.seed or entry.revisit or entry.last or entry.probe)
        if found and (refusal := self._job.traps.refusal_of_queued(entry.href)) is not None:
            why = HostClosed(refusal.rule.value, refusal.why, refusal=refusal)
            self._unasked(lease, entry, Outcome.EXCLUDED, why)
            return True
        rule = self._discovery.excluded(entry)
        if rule is not None:
            self._unasked(lease, entry, Outcome.EXCLUDED, rule, left=LeftOut({Limit.EXCLUDE: 1}, entry.depth))
            return True
        if not self.robots.at_hand(lease.host.name):
            self._unruled.add(entry.href)  # a long robots.txt is parsed in a thread, during the visit
            return False
        return self._refuse_by_robots(lease, entry)

    def _refuse_by_robots(self, lease: Lease, entry: Entry) -> bool:
        self._unruled.discard(entry.href)
        refusal = self.robots.refusal(lease.host.name, entry.href)
        if refusal is None:
            return False
        self._unasked(lease, entry, Outcome.EXCLUDED if refusal.lasting else Outcome.FAILED, refusal.words)
        return True

    async def _refused_late(self, lease: Lease, entry: Entry) -> bool:
        """Check robots.txt if ``refuse`` could not, because the rules of the host were not at hand."""
        if entry.href not in self._unruled:
            return False
        while not self.robots.at_hand(lease.host.name):  # the rules may be dropped while this waits for disk space
            await self.robots.prepare(lease.host.name)
            await self._job.room()
        return self._refuse_by_robots(lease, entry)

    def _unasked(
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
        self._job.finish(lease, Draft(record, request, requested=False, left=left), record.fetched_at)

    def _refused(self, lease: Lease, entry: Entry, refusal: Refusal) -> None:
        """Finish a URL whose request was refused before it was made. The other URLs of the host end in the same way,
        without waiting for its gap."""
        self._job.frontier.refused.remember(lease.host.name, refusal, self._context.clock() + REFUSED_FOR)
        closed = HostClosed(refusal.rule.value, refusal.words, refusal=refusal)
        self._unasked(lease, entry, Outcome.EXCLUDED, closed)

    def close(self) -> None:
        """Close the page reader, once no visit is running."""
        self._reader.close()

    @property
    def elsewhere(self) -> str | None:
        """See ``Discovery``."""
        return self._discovery.elsewhere

    @property
    def harvest(self) -> Rated | None:
        """The last pages that user code rated; None if no code rates pages."""
        return None if self._code.focus is None else self._code.focus.recent

    @property
    def parsed(self) -> dict[str, int]:
        """The number of pages of this run, by the way they were parsed."""
        return self._reader.parsed

    async def visit(self, lease: Lease) -> None:
        """Carry out a lease to its end, and release it on cancellation."""
        self._context.slots.begin(partial(self._lend, lease))
        if lease.entry is not None:
            self.under_way[lease.entry.href] = lease.taken_at
        else:
            self.side_requests[lease.host.name] = lease.taken_at
        politeness = lease.host.politeness
        politeness.signed = self._context.fetcher.signs(lease.host.name, known=politeness.signed)
        try:
            if lease.address:
                await self._find_address(lease)
            elif lease.entry is None:
                await self.robots.visit(lease)
            elif await self._refused_late(lease, lease.entry):
                pass
            elif self.robots.terms_due(lease.host.name, lease.entry.href) is not None:
                await self.robots.ask_terms(lease.host.name)
                raise Withdrawn
            else:
                draft = await self._visit_url(lease, lease.entry)
                if draft is not None:
                    await self._finish_with_text(lease, draft)
        except TryAgain as once_more:
            self._job.retry(lease, once_more.retry, self._context.clock())
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
        self._context.wake()  # another host of the same kind may get the slot

    async def _visit_url(self, lease: Lease, entry: Entry) -> Draft | None:
        """Fetch a URL and finish it. Returns the draft if it will be finished after text extraction."""
        declared = self._understanding.links.sitemaps and not entry.is_leaf and self._is_declared(entry)
        headers = conditions = self._job.revisiting.conditions(entry)
        types, code, markdown = self._sitemap_types(entry, declared), self._code.handing_over, False
        is_external = entry.is_leaf and self._understanding.links.external
        if MARKDOWN in self._understanding.links.kinds and not entry.is_leaf:
            markdown = True
            if not (named_like_sitemap(entry.href) or declared):
                headers = {"Accept": ACCEPT_MARKDOWN, **headers}

        def read_by_crawl(content_type: str | None) -> bool:
            is_read = is_html(content_type) or content_type in types or (markdown and is_markdown(content_type))
            return is_read and not entry.is_leaf

        def wanted(content_type: str | None) -> bool:
            is_wanted = read_by_crawl(content_type) or (is_external and is_html(content_type))
            return is_wanted or (code is not None and code.wants_body(content_type))

        if self._context.code.headers is not None:
            headers = with_own(headers, await self._context.code.headers(entry.href))
        fetch, keep = self._context.fetcher.fetch, self._understanding.keep
        if is_external:
            read = partial(fetch, accept=wanted, max_body=CHALLENGE_MOST, truncate=True)
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
                return None
            at_fault = result.partial is None and await self.robots.borrowing.line.is_at_fault(
                lease, entry.href, result, now
            )
            await self._job.room()
            if at_fault:
                self._job.take_back(lease, self._context.clock())
                return None
        else:
            self.robots.borrowing.line.detector.heard(lease, entry.href)
        verdict = self._verdict(entry, result, now, conditional=bool(conditions))
        if isinstance(verdict, Retry):
            self._job.retry(lease, verdict, now)
        elif isinstance(verdict, Throttled):
            await self._throttle(lease, verdict)
        else:
            self.robots.add_terms(lease.host.name, verdict.record)
            if verdict.response is not None:
                await self._read(lease, verdict, read_by_crawl, declared=declared)
            elif isinstance(result, Failure) and result.kind is FailureKind.TOO_LARGE:
                verdict.left = LeftOut({Limit.MAX_BODY: 1}, entry.depth)
            self._understanding.obey(verdict)
            if await self._finish(lease, verdict):
                return verdict
        return None

    async def _throttle(self, lease: Lease, verdict: Throttled) -> None:
        last = verdict.last
        if last is not None:
            self.robots.add_terms(lease.host.name, last.record)
            self._understanding.obey(last)
            if self._keepers is not None and last.is_kept:
                last.kept = await self._kept(self._keepers, last)
        self._job.throttle(lease, verdict, self._context.clock())

    async def _turn(self, *, bulk: bool = False) -> None:
        """Wait until a piece of work and a transaction may start. ``bulk``: see ``Turns``."""
        await self._context.turns.turn(bulk=bulk)
        await self._job.room()

    def _verdict(self, entry: Entry, result: Response | Failure, now: float, *, conditional: bool) -> Verdict:
        """Return what an exchange means for its URL. An exchange that cannot be read counts as failed."""
        understanding, read = self._understanding, self._context.reading.read
        is_compared = self._job.revisiting.wants_answer(entry)
        verdict = read(understanding.verdict, entry, result, now, is_compared, conditional)
        if not isinstance(verdict, Unreadable):
            return verdict
        failed = judge(entry, verdict.failure(result.seconds), now, understanding.retry)
        if isinstance(failed, Draft):
            read(understanding.describe, failed, entry, result)
        return failed

    async def _read(
        self, lease: Lease, draft: Draft, read_by_crawl: Callable[[str | None], bool], *, declared: bool
    ) -> None:
        """Parse the answer, and add its contents to the draft. ``declared``: True if the answer should list URLs."""
        record, body, response = draft.record, draft.body, draft.response
        entry, content_type = record.entry, record.content_type
        if self._understanding.describer.wants_digest and response is not None and response.body is not None:
            digest = await self._aside(payload_digest(response.body))
            record.profile = record.profile._replace(payload_digest=digest)
        if declared and record.outcome is Outcome.FETCHED and record.status != NOT_MODIFIED and record.error is None:
            record.error = NO_URLS  # replaced when URLs are found
        challenge = draft.heading.challenge
        if challenge is None and entry.is_leaf and body is not None:
            challenge = challenge_by_markup(body, body.count(b"<a "))
        if draft.location is not None:
            await self._redirect(lease, draft, draft.location)
            return
        if challenge is not None:
            barred(draft, challenge)
            return
        if body is not None and read_by_crawl(content_type):
            markdown = is_markdown(content_type)
            may_list = self._understanding.links.sitemaps and not (markdown or is_page(body))
            if may_list and await self._sitemap(lease, draft, body):
                return
            if markdown or is_html(content_type):
                await self._page(lease, draft, body, markdown=markdown)
                return
        await self._other(lease, draft)

    async def _page(self, lease: Lease, draft: Draft, body: bytes, *, markdown: bool) -> None:
        """Add the facts of a page, raw or rendered by a browser, and act on them."""
        facts = await self._told(lease, draft, body, markdown=markdown)
        browser = self._rendering
        if browser and not (markdown or isinstance(facts, Unreadable)):
            made = await browser.render(lease, draft, facts)
            if made is not None:
                raw, body, before = body, made.html, facts
                added = partial(browser.with_ways, made, draft.record.entry.href)
                facts = await self._told(lease, draft, body, added=added)
                if not isinstance(facts, Unreadable):
                    browser.learned(lease, draft, (before, raw), (facts, body))
                    facts.profile = facts.profile._replace(charset=before.profile.charset)
                    facts.consent = stricter(before.consent, facts.consent)
        with self._context.slots.wait() if len(body) > LONG else contextlib.nullcontext():
            await self._understood(lease, draft, body, facts)

    async def _told(
        self,
        lease: Lease,
        draft: Draft,
        body: bytes,
        *,
        markdown: bool = False,
        added: Callable[[PageLinks], PageLinks] | None = None,
    ) -> PageFacts | Unreadable:
        """Return the facts of a page, or of its rendered document. ``added`` adds further links to those of the
        body."""
        links = None if markdown else self._reader.links_here(lease, body, draft.charset)
        if links is None:
            kind = Kind.MARKDOWN if markdown else Kind.TREE
            links = await self._reader.links_elsewhere(lease, body, draft.charset, kind)
            await self._turn()
        if isinstance(links, Unreadable):
            return links
        if added is not None:
            links = added(links)
        return self._context.reading.read(self._understanding.page, self._discovery, draft, links)

    async def _aside(self, work: Generator[None, None, T]) -> T:
        """Do the work on a page step by step, and let the event loop run in between if the work is long. Afterwards a
        transaction may start."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                return cast("T", end.value)
            await asyncio.sleep(0)
            await self._turn(bulk=True)

    async def _compare_by_text(self, draft: Draft, body: bytes) -> None:
        """Compare the page with other visits by its text. A page without text is compared by its bytes."""
        answer = draft.answer
        if answer is None or is_markdown(draft.record.content_type):
            return
        digest = await self._aside(self._context.reading.steps(text_digest(body, draft.charset)))
        if digest is not None and not isinstance(digest, Unreadable):
            draft.answer = by_text(answer, draft.record.status, digest)

    async def _understood(self, lease: Lease, draft: Draft, body: bytes, facts: PageFacts | Unreadable) -> None:
        """Determine the kind of the page from its facts, and add the links to follow."""
        record, entry, discovery = draft.record, draft.record.entry, self._discovery
        content = await self._aside(discovery.measure(body))
        by_text = self._understanding.by_text or draft.rendering is not None
        if by_text:
            await self._compare_by_text(draft, body)
        if by_text or len(body) > LONG:
            await self._turn()
        if isinstance(facts, Unreadable):
            unread(draft, facts.error)
            return
        challenge, page, record.profile = facts.challenge, facts.links, facts.profile
        if challenge is not None and not challenge.login:
            barred(draft, challenge)  # the page does not belong to the site
            return
        of_header = await self.robots.licensed(lease, draft)
        record.robots, record.license = facts.robots, facts.license
        record.consent = stricter(facts.consent, of_header, await self.robots.licensed(lease, draft))
        if self._understanding.headings.follows(facts.robots):
            self._refresh(draft, facts.refresh, facts.base)
        if isinstance(content, Unreadable):
            unread(draft, content.error)
            return
        is_refused = self._understanding.refusal(record) is not None
        page = replace(page, described=None) if is_refused else page  # code and outputs get no link texts
        likeness = discovery.compare(entry, body, facts.written, content)
        judged = likeness.judged
        parts: Iterable[Outlinks | Unreadable] = discovery.outlinks(entry, page, facts.base, likeness)
        if self._code.focus is not None:
            # A page that its host or the crawler substituted for the requested one is not rated.
            rated = challenge is None and not entry.probe and judged.kind is PageKind.PAGE and not is_refused
            parts = await self._code.focus.page(lease, draft, parts, rated=rated)
        links = await self._discovered(entry, parts)
        if isinstance(links, Unreadable):
            unread(draft, links.error)
            return
        draft.links, draft.is_page = links, True
        record.links, record.content = links.found, likeness.content
        record.links_cut = page.truncated or page.cut is not None
        if page.cut is not None:
            record.error = f"page read in part: {page.cut}"
        if likeness.is_followed:
            if page.too_long:
                links.outside[Outside.TOO_LONG] = links.outside.get(Outside.TOO_LONG, 0) + page.too_long
            cut = Limit.MAX_LINKS if page.truncated else None
            draft.left = LeftOut.of(links.outside, entry.depth + 1, cut=cut)
        else:
            limit = Limit.DUPLICATES if likeness.of_copy else Limit.SOFT404
            draft.left = LeftOut({limit: links.found}, entry.depth + 1)
        draft.sights = discovery.look(entry, body, page, likeness.content)
        self._judge(draft, judged)
        if challenge is not None:
            barred(draft, challenge)
        elif record.outcome is Outcome.FETCHED and not entry.probe and (record.status or 0) < 300:
            record.needs_scripts = facts.needs_scripts

    async def _discovered(self, entry: Entry, parts: Iterable[Outlinks | Unreadable]) -> Outlinks | Unreadable:
        """Admit the links of a page, except for the last part of them. Returns that part, with the counts of all
        parts."""
        job = self._job
        found: list[Outlinks] = []
        for number, part in enumerate(parts):
            if number:
                last = found[-1]
                if last.inside:
                    now, depth = self._context.clock(), entry.depth + 1
                    job.admit(Found(last.inside, depth, entry.href, found_at=now, candidates=last.candidates))
                self._context.wake()
                await asyncio.sleep(0)
                await self._turn(bulk=number > USUAL_PARTS)
            if isinstance(part, Unreadable):
                return part
            found.append(part)
        return found[0] if len(found) == 1 else together(found)

    def _judge(self, draft: Draft, judged: Judgement) -> None:
        """Add to a page what it reveals about the host's answers to paths that do not exist."""
        record, lesson = draft.record, judged.lesson
        if judged.kind is PageKind.NOT_FOUND:
            record.outcome, record.error = Outcome.SOFT404, MADE_UP if record.entry.probe else NOT_FOUND
            if draft.answer is not None:
                draft.answer = as_not_found(draft.answer)
        elif judged.kind is PageKind.APPLICATION:
            record.error = APPLICATION
        if lesson is None:
            return
        words = tell_learned(self._job.events, lesson, record.fetched_at)
        if words is not None:
            log.warning("%s %s", lesson.host, words)
        draft.lesson = lesson
        draft.probe = None if lesson.probe is None else self._discovery.probe(lesson.probe)

    async def _other(self, lease: Lease, draft: Draft) -> None:
        """Process an answer that is not a page. Its headers may name links."""
        record, entry, heading = draft.record, draft.record.entry, draft.heading
        record.consent = stricter(record.consent, await self.robots.licensed(lease, draft))
        if record.status != NOT_MODIFIED:
            draft.left = NOTHING_LEFT_OUT
        if not heading.hrefs or entry.probe or entry.is_leaf or not self._understanding.headings.follows(record.robots):
            return
        self._refresh(draft, heading.refresh, entry.href)
        links = self._discovery.stated(entry, heading.hrefs)
        if isinstance(links, Unreadable):
            unread(draft, links.error)
            return
        draft.links = links if self._code.focus is None else await self._code.focus.links(lease, draft, links)
        record.links, draft.left = links.found, LeftOut.of(draft.links.outside, entry.depth + 1)

    def _sitemap_types(self, entry: Entry, declared: bool) -> frozenset[str]:
        """Return the content types of sitemaps whose bodies the crawl itself reads. The types are common, also for
        large files, so they are returned only if the URL may be a sitemap."""
        links, feeds = self._understanding.links, FEED in self._understanding.links.kinds
        if not links.sitemaps:
            return frozenset()
        if declared or named_like_sitemap(entry.href):
            return SITEMAP_TYPES | FEED_TYPES if declared or feeds else SITEMAP_TYPES
        return XML_TYPES | FEED_TYPES if entry.seed or feeds else frozenset()

    def _is_declared(self, entry: Entry) -> bool:
        """Return whether robots.txt or a sitemap index lists the URL as a sitemap, even if a page linked to it
        first."""
        return entry.sitemap or self.robots.declares(entry.href)

    def _is_sitemap(self, entry: Entry, form: SitemapForm) -> bool:
        """Return whether a body of this form is a sitemap. A feed or plain text counts as one only if it is named or
        listed as a sitemap, because many other documents look the same."""
        match form:
            case SitemapForm.LISTING:
                return True
            case SitemapForm.FEED:
                return entry.seed or FEED in self._understanding.links.kinds or self._is_declared(entry)
            case SitemapForm.TEXT | SitemapForm.LOOSE:
                return called_sitemap(entry.href) or self._is_declared(entry)
            case _:
                return False

    async def _sitemap(self, lease: Lease, draft: Draft, body: bytes) -> bool:
        """Process the body if it is a sitemap or cannot be read. Returns False if it is neither."""
        entry, charset = draft.record.entry, draft.charset
        read = await self._reader.form(lease, body, charset)
        if not self.robots.at_hand(lease.host.name):
            await self.robots.prepare(lease.host.name)  # the rules were dropped from memory meanwhile
        await self._job.room()
        if isinstance(read, Unreadable):
            unread(draft, read.error)
            return True
        form = read.form if isinstance(read, SitemapRead) else read
        if not self._is_sitemap(entry, form):
            return False
        with self._context.slots.wait():
            if isinstance(read, SitemapRead):
                await self._listed(lease, draft, read, map(decode_listed, read.parts))
            else:
                sitemap = Sitemap(body, self._understanding.links, charset)
                await self._listed(lease, draft, sitemap, iter(sitemap))
        return True

    async def _listed(
        self, lease: Lease, draft: Draft, sitemap: Sitemap | SitemapRead, pieces: Iterator[Sequence[Listed]]
    ) -> None:
        """Admit the URLs of a sitemap, and describe it in the record."""
        record, entry, found, outside = draft.record, draft.record.entry, 0, Counter[Outside]()
        skipped = list[str]()
        for listed in self._reader.pieces(lease, pieces):
            if isinstance(listed, Unreadable):
                unread(draft, listed.error)
                return
            for part in _parts(listed):
                links = await self._admit_listed(entry, part, index=sitemap.is_index)
                if isinstance(links, Unreadable):
                    unread(draft, links.error)
                    return
                found += links.found
                outside.update(links.outside)
                if sitemap.is_index:
                    inside = {url.href for url in links.inside}
                    skipped += [url.href for url in links.urls if url.href not in inside]
        self._job.counters.sitemaps_read += 1
        cut = sitemap.fault or draft.cut
        fault = None if cut is None else f"sitemap read in part: {cut}"
        errors = [fault, f"skipped sitemaps: {some_of(skipped)}" if skipped else None]
        errors.append(None if found and record.error == NO_URLS else record.error)
        record.entry, record.error = entry._replace(sitemap=True), "; ".join(filter(None, errors)) or None
        record.links, record.links_cut = found, fault is not None
        by = None if sitemap.limit is None else Limit(sitemap.limit)
        draft.left = LeftOut.of(outside, listed_depth(entry), cut=by)

    async def _admit_listed(self, entry: Entry, listed: Sequence[Listed], *, index: bool) -> Outlinks | Unreadable:
        """Admit the URLs of one part of a sitemap, and give other tasks a turn. Returns these URLs."""
        job, links = self._job, self._discovery.sitemap(entry, listed, index=index)
        if isinstance(links, Unreadable):
            return links
        depth = listed_depth(entry)
        if self._code.focus is not None and not index:
            links = await self._code.focus.listed(entry, links, depth)
        if links.inside:
            now, known = self._context.clock(), links.candidates
            job.admit(Found(links.inside, depth, entry.href, found_at=now, sitemaps=index, candidates=known))
        self._context.wake()
        await asyncio.sleep(0)
        await self._turn(bulk=True)
        return links

    async def _redirect(self, lease: Lease, draft: Draft, location: str) -> None:
        record, entry = draft.record, draft.record.entry
        target = self._discovery.redirect(entry, location)
        if isinstance(target, Unreadable):
            unread(draft, target.error)
            return
        record.outcome, record.location, record.error = Outcome.REDIRECT, target.location, target.error
        draft.links = target.links
        if target.links.inside and not target.error:
            record.error = self._chain(draft, target.links.inside[0])
        if entry.probe:
            draft.links = replace(target.links, inside=[])
        if self._code.focus is not None:
            draft.links = await self._code.focus.target(lease, draft, draft.links)
        draft.left = LeftOut.of(draft.links.outside, entry.depth)

    def _refresh(self, draft: Draft, refresh: Refresh | None, base: str) -> None:
        """Follow a refresh like a redirect: the refresh of a seed may widen the scope, and a refresh without delay may
        set a cookie. Raises TryAgain."""
        record, entry = draft.record, draft.record.entry
        if refresh is None or entry.is_leaf or refresh.seconds > (MOVES_WITHIN if entry.seed else 0):
            return
        target = self._discovery.redirect(entry, refresh.target or entry.href, base)
        if isinstance(target, Unreadable) or target.error or not target.links.inside:
            return
        url = target.links.inside[0]
        if not refresh.seconds:
            record.error = self._chain(draft, url) or record.error
        if entry.seed or draft.chain:
            at = None if entry.seed else self._context.clock()
            hops, known = entry.redirects + 1, target.links.candidates
            found = Found([url], entry.depth, entry.href, entry.seed, hops, at, candidates=known, chain=draft.chain)
            self._job.admit(found)

    def _chain(self, draft: Draft, target: Canonical) -> str | None:
        """For a redirect, add the chain of redirects if the crawl keeps cookies, and the target itself if a request for
        it is another try of a URL in that chain. Returns a note for the record. Raises TryAgain if the URL redirects to
        itself with other cookies."""
        entry, response = draft.record.entry, draft.response
        assert response is not None  # only a response can redirect
        if response.cookies is None:
            returns = target.href == entry.href or (entry.redirects and target.href == entry.via)
            if not (returns and response.values("Set-Cookie")):
                return None
            self._context.said.say(SOME_NEED_COOKIES, NEEDS_COOKIES)
            return NEEDS_COOKIES
        kind = url_kind(Outcome.FETCHED if draft.location is None else Outcome.REDIRECT, draft.record.status)
        draft.chain = chain = lengthened(entry.chain, entry.href, response.cookies, kind)
        before, now = link_of(chain, target.href), self._context.fetcher.cookie_state(target.href)
        bounced = self._job.revisiting.bounced
        if before is None and target.href in bounced:  # ``target`` is known, but may set a cookie for this URL too
            before = Link(0, 0, bounced[target.href])
        elif before is None or before.cookies == now:
            return None if self._job.is_own(target) else OTHER_COOKIES
        hops = entry.redirects + 1
        if target.href == entry.href:
            once_more = entry._replace(redirects=hops, chain=chain)
            raise TryAgain(Retry(once_more, 0.0, draft.request))
        draft.again = Entry(target.href, entry.depth, entry.href, entry.seed, hops, last=before.kind, chain=chain)
        return None

    async def _finish(self, lease: Lease, draft: Draft) -> bool:
        """Finish a URL that was requested. Returns whether finishing it is left to ``_finish_with_text``."""
        self._seed_failed(draft.record)
        if self._code.changes is not None:
            await self._code.changes.check(lease, draft)
        code = self._code.handing_over
        if code is None or not code.wants(draft):
            return await self._keep(lease, draft)
        page = await code.hand_over(lease, draft)
        with code.finishing(page):
            if await self._keep(lease, draft):
                await self._finish_with_text(lease, draft, in_memory=True)  # ``page`` holds its body in memory
        return False

    async def _keep(self, lease: Lease, draft: Draft) -> bool:
        """Prepare the page for the outputs, and finish it. Returns whether finishing it is left to
        ``_finish_with_text``, which runs after all other calls for the page have returned, because the host should not
        wait for the text."""
        if self._keepers is not None and draft.is_kept:
            if self._keepers.takes_long(draft):
                may_wait = self._keepers.may_wait(lease.host.name, 2 * self._context.capacity().slots)
                if may_wait and not lease.left:
                    self._job.frontier.answered(lease, draft.request, self._context.clock())
                    self._context.wake()
                return True
            draft.kept = await self._kept(self._keepers, draft)
        elif self._keepers is not None:
            draft.kept = self._keepers.gone(draft)
        self._job.finish(lease, draft, self._context.clock())
        return False

    async def _finish_with_text(self, lease: Lease, draft: Draft, *, in_memory: bool = False) -> None:
        """Extract the text of a page when nothing else needs its body, then finish the page. A large body is in a file
        meanwhile; if other outputs need it, it is loaded back into memory, one body at a time. ``in_memory``: the body
        stays in memory.
        """
        assert self._keepers is not None
        with self._keepers.wait(lease.host.name), self._context.slots.wait():
            page: OnDisk | None = None
            if len(draft.body or b"") > LARGE and not in_memory and draft.rendering is None:
                with contextlib.suppress(OSError):  # if the disk is full, the body waits in memory
                    page = await asyncio.to_thread(OnDisk.of, draft, self._job.directory)
            if page is None:
                assert draft.body is not None
                text, language = await self._keepers.text(draft, draft.body)
                draft.kept = await self._kept(self._keepers, draft, text)
            else:
                self._context.fetcher.let_go()
                text, language = await self._keepers.text(draft, page.body)
                async with self._keepers.large:
                    draft.kept = await self._kept(self._keepers, page.whole(), text)
        self._understanding.describer.detected(draft.record, language)
        self._job.finish(lease, draft, self._context.clock())

    async def _kept(self, keepers: Keepers, draft: Draft, text: Kept = ()) -> Kept:
        kept = await keepers.keep(draft, text)
        await self._job.room()
        return kept

    async def _find_address(self, lease: Lease) -> None:
        """Look up the address of the host, which politeness by address needs. No page is requested."""
        frontier = self._job.frontier
        address = await self._context.fetcher.resolve(frontier.peek(lease.host).href)
        await self._job.room()
        now = self._context.clock()
        if address is None and self.robots.borrowing.line.detector.holds:
            self._job.take_back(lease, now)
            return
        self._job.change_hosts(lambda batch: frontier.finish(lease, AddressKnown(address), now, batch))

    def _seed_failed(self, record: PageRecord) -> None:
        if record.entry.seed and record.outcome not in LED_ON and not record.is_dropped:
            self.last_seed_error = f"{record.entry.href}: {record.error}"


def _parts(listed: Sequence[Listed]) -> Iterator[Sequence[Listed]]:
    """Yield the URLs of a piece of a sitemap in groups; one empty group if there are none."""
    for start in range(0, max(1, len(listed)), LISTED_A_STEP):
        yield listed[start : start + LISTED_A_STEP]
