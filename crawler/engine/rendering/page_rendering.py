"""Decides which pages of a run are rendered, and renders them.

    raw answer     its host and its slot are released
    waits          for a tab; a host with many waiting pages gets no more requests meanwhile
    rendered       ``SubRequests`` makes its requests, each under its own lease
    finished       with its document in place of the body

The page stays in flight all that time: if the program is killed meanwhile, the page is visited again.

Rendering a page has paid off if its document has a link in scope that the raw page lacks, or new words with at least
``TEXT`` letters and digits in total. A page without signs that it needs scripts has content without them. For such a
page, additions that also appeared on the last rendered page of its host, such as a banner, do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.context import without_host
from crawler.engine.handed_page import Withdrawn
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.rendering.sub_requests import PageNetwork, SubRequests, as_answer
from crawler.engine.robots_visit import RobotsVisits
from crawler.engine.understanding import PageFacts
from crawler.frontier.host import Host
from crawler.frontier.lease import Lease, Retry
from crawler.frontier.rendering.rendering_odds import Paying, Why
from crawler.frontier.request_outcome import FailureClass
from crawler.frontier.retries import retry_wait, tries_of
from crawler.frontier.traps.soft404 import without_hidden
from crawler.job.records import NOT_RENDERED, PageRecord, RenderedAs
from crawler.job.verdict import Draft, Rendering, TryAgain
from crawler.web.browser.rendered import NotRendered, Rendered
from crawler.web.fetch import Keeps, is_html
from crawler.web.links.encoding import as_utf8
from crawler.web.links.extract import PageLinks
from crawler.web.links.refresh import Refresh

LATER = FailureClass.SERVER_ERROR  # the class of a page whose scripts or data are temporarily unavailable
TEXT = 60
HOSTS_KEPT = 200  # hosts for which the last page is remembered
NEW_KEPT = 1_000  # maximum number of links and words that are remembered of that page
LENGTH_MOST = 2**20  # bytes of a document that are compared
_TAG = re.compile(rb"<[^>]*>?")


class PageRendering:
    """Renders pages of one run."""

    def __init__(self, robots: RobotsVisits, discovery: Discovery, settings: Settings, keep: Keeps | None) -> None:
        """``keep``: which exchanges are archived as received."""
        self._network = network = PageNetwork(robots, discovery, settings, keep)
        self._job, self._context = network.job, network.context
        self._waiting = Counter[str]()  # number of waiting pages by host, and of audits
        self._asked = Counter[str]()  # sub-requests, until a finished page counts them
        self._paying = Paying(network.job.counters.audited, network.job.seen.hash.secret, network.job.store)
        self._last: dict[str, frozenset[str]] = {}  # host -> additions of its last page
        self.change(settings)

    def change(self, settings: Settings) -> None:
        """From now on, use these settings to choose the pages to render and to limit them."""
        self._network.settings = settings
        self._sites = Sites(settings)

    async def render(self, lease: Lease, draft: Draft, facts: PageFacts) -> Rendered | None:
        """Render the page in a browser and add its document to the draft. Returns None if the page is not to be
        rendered, or could not be. Raises TryAgain if missing parts may be available later, and Withdrawn if the
        sub-requests were interrupted."""
        record, entry, response = draft.record, draft.record.entry, draft.response
        when = self._when(lease, record, facts)
        if when is None or response is None:
            return None
        counts = not (entry.revisit or entry.probe)
        draft.paid = self._paying.weigh(lease.host.name, entry.href, facts.needs_scripts, when, counts=counts)
        why = draft.paid.why
        if why is None:
            return None
        context = self._context
        requests = SubRequests(self._network, entry.href)
        in_turn = why is not Why.AUDIT  # audits go first: most pages of their hosts do not need the browser
        with without_host(context, self._job.frontier, lease, draft.request), self._waits(lease.host, in_turn):
            context.fetcher.let_go()  # its memory is for the page's sub-requests
            result = await context.renderer.render(entry.href, as_answer(response), requests.ask, in_turn=in_turn)
        await self._job.room()
        if requests.interrupted:
            raise Withdrawn
        retry = self._network.settings.retry
        refused = result.refused if isinstance(result, Rendered) else ()
        self._asked += requests.counts | Counter(why.value for why, _ in refused)  # refused by the tab itself
        if isinstance(result, Rendered) and result.waits and entry.tries + 1 < tries_of(LATER, retry):
            again = entry._replace(tries=entry.tries + 1)
            wait = retry_wait(again.tries, retry, entry.href)
            raise TryAgain(Retry(again, wait, draft.request))
        asked, self._asked = self._asked, Counter[str]()
        draft.rendering = Rendering(asked, requests.exchanges)
        if draft.answer is not None:
            # Data may change while the shell stays unmodified, so the next visit makes an unconditional request.
            draft.answer = replace(draft.answer, etag=None, last_modified=None)
        if isinstance(result, NotRendered):
            record.error = "; ".join(filter(None, (record.error, f"{NOT_RENDERED}{result.error}")))
            return None
        state = "partly" if result.partly else "yes"
        record.rendered = RenderedAs(state, result.engine, round(1000 * result.cpu_seconds), why)
        draft.body, draft.charset = result.html, "utf-8"
        return result

    @staticmethod
    def with_ways(result: Rendered, href: str, links: PageLinks) -> PageLinks:
        """Return the links of a document, and the URLs to which its scripts navigated."""
        ways = [
            way
            for way in (result.moved, result.url, *result.routes)
            if way is not None and way.partition("#")[0] != href
        ]
        refresh = links.refresh if result.moved is None else Refresh(0, result.moved)
        return replace(links, hrefs=[*links.hrefs, *ways], refresh=refresh)

    def learned(
        self, lease: Lease, draft: Draft, before: tuple[PageFacts, bytes], after: tuple[PageFacts, bytes]
    ) -> None:
        """Add the result of rendering to the page: ``before`` are its raw facts and body, ``after`` those of its
        document."""
        paid = draft.paid
        assert paid is not None
        (links, words), (old_links, old_words) = (self._shown(lease, *each) for each in (after, before))
        links, words, host = links - old_links, words - old_words, lease.host.name
        last = self._last.pop(host, frozenset())
        self._last[host] = frozenset(sorted(links | words)[:NEW_KEPT])
        if len(self._last) > HOSTS_KEPT:
            del self._last[next(iter(self._last))]
        if not paid.signs:
            links, words = links - last, words - last
        draft.paid = replace(paid, gained=bool(links) or sum(map(len, words)) >= TEXT)

    def _shown(self, lease: Lease, facts: PageFacts, body: bytes) -> tuple[set[str], set[str]]:
        """Return the keys of a document's links, except links to the document itself, and its words."""
        assert lease.entry is not None
        links = self._network.discovery.keys_inside(lease.entry, facts.links, facts.base)
        text = _TAG.sub(b" ", without_hidden(bytes(as_utf8(body[:LENGTH_MOST], facts.links.encoding))))
        return links, set(re.findall(r"\w+", unescape(text.decode("utf-8", "replace"))))

    def _when(self, lease: Lease, record: PageRecord, facts: PageFacts) -> str | None:
        """Return the host's setting for rendering pages; None if this page cannot be rendered."""
        when = self._sites.of_host(lease.host.name).browser.when
        if when == "never" or facts.challenge is not None or record.entry.is_leaf or not is_html(record.content_type):
            return None
        if not 200 <= (record.status or 0) < 300 or record.status in (204, 205):  # these have no body
            return None
        return when

    @contextmanager
    def _waits(self, host: Host, in_turn: bool) -> Iterator[None]:
        """Count a page that waits for the browser. While many pages of its host wait, the host gets no more requests,
        because each waiting page takes memory, and the slots are for all hosts. A host may take a third of the free
        slots, and all audits together as many as there are slots: they are few, so they seldom hold a host."""
        frontier, name, slots = self._job.frontier, host.name if in_turn else "", self._context.capacity().slots
        self._waiting += Counter([name])
        number, free = self._waiting[name], slots - self._waiting.total()
        if not host.waits and (2 * number + 2 > free if in_turn else number >= slots):
            frontier.hold_queue(host, True)
        try:
            yield
        finally:
            self._waiting -= Counter([name])
            if host.waits:
                frontier.hold_queue(host, False)  # another page may take the place of this one
                self._context.wake()
