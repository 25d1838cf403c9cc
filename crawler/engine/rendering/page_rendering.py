"""Which pages of a run are rendered, and what becomes of them.

    raw answer     its host has its slot back, and the visit lends its own
    waits          for a tab; a host with many such pages is asked for no more of them meanwhile
    rendered       what it asks for is asked by ``SubRequests``, each under a lease of its own
    finished       with its document in the place of the body

The page stays in flight all that time: killed, it comes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.discover import Discovery
from crawler.engine.page_handler import Withdrawn
from crawler.engine.rendering.paying import RenderingPays
from crawler.engine.rendering.renderer import TRIES
from crawler.engine.rendering.sub_requests import PageNetwork, as_answer
from crawler.engine.robots_visit import RobotsVisits
from crawler.engine.understanding import PageFacts
from crawler.frontier.host import Host
from crawler.frontier.lease import Lease
from crawler.frontier.rendering.paying import Why
from crawler.frontier.request_outcome import FailureClass, retry_wait, tries_of
from crawler.job.records import NOT_RENDERED, RenderedAs
from crawler.job.verdict import Again, Finished, Rendering
from crawler.web.browser.rendered import Budget, NotRendered, Refusal, Rendered
from crawler.web.fetch import Keeps, is_html
from crawler.web.links.extract import PageLinks
from crawler.web.links.refresh import Refresh

LATER = FailureClass.SERVER_ERROR  # a page whose scripts or data cannot be had now is tried as often as such pages
LACKS = "its scripts or data cannot be had now"


class PageRendering:
    """Renders pages of one run."""

    def __init__(self, network: PageNetwork) -> None:
        self._job = network.job
        self._context = network.context
        self._network = network
        self._waiting = Counter[str]()  # pages, by host
        self._pays = RenderingPays(network.job, network.discovery)
        self.change(network.settings)

    def change(self, settings: Settings) -> None:
        """Go on with other pages to render, and other bounds."""
        self._network.settings = settings
        self._sites = Sites(settings)
        self._budget = budget = Budget()
        self._of_tries = replace(budget, requests=TRIES * budget.requests, bytes=TRIES * budget.bytes)

    async def render(self, lease: Lease, finished: Finished, facts: PageFacts) -> Finished | None:
        """Return the page with what a browser made of it, or as it is if it is not to be rendered; None if it is to be
        tried once more, because it lacks what may be had later."""
        entry, response = finished.record.entry, finished.response
        when = None if response is None else self._when(lease, finished, facts)
        if when is None or response is None:
            return finished
        paid = self._pays.wants(lease, facts, when)
        finished, why = replace(finished, paid=paid), paid.why
        if why is None:
            return finished
        context, frontier = self._context, self._job.frontier
        if not lease.left:
            frontier.answered(lease, finished.request, context.clock())
            context.wake()
        context.fetcher.let_go()  # what the page asks for has its room
        requests = self._network.for_page(entry.href, self._of_tries)
        with self._waits(lease.host), context.slots.lent():
            # An audit goes first: there are few, and its host is one whose pages are not to wait for the browser.
            result = await context.renderer.render(
                entry.href, as_answer(response), requests.ask, self._budget, in_turn=why is not Why.AUDIT
            )
        await self._job.room()
        if requests.interrupted:
            raise Withdrawn
        retry = self._network.settings.retry
        if isinstance(result, Rendered) and result.waits and entry.tries + 1 < tries_of(LATER, retry):
            again = entry._replace(tries=entry.tries + 1)
            wait = retry_wait(again.tries, retry, entry.href)
            self._job.retry(lease, Again(again, wait, LACKS, finished.request), context.clock())
            return None
        counts = requests.counts
        asked = {"made": counts.made, "cached": counts.cached}
        by_tab = Counter(each.why for each in result.refused) if isinstance(result, Rendered) else Counter[Refusal]()
        asked |= {why.value: number for why, number in (counts.refused | by_tab).items()}
        rendering = Rendering(why, result, asked, requests.exchanges)
        record = finished.record
        answer = finished.answer
        if answer is not None:
            # Data may be another while the shell is not modified: the next visit asks for it without a condition.
            answer = replace(answer, etag=None, last_modified=None)
        if isinstance(result, NotRendered):
            error = "; ".join(filter(None, (record.error, f"{NOT_RENDERED}{result.error}")))
            return replace(finished, record=replace(record, error=error), answer=answer, rendering=rendering)
        state = "partly" if result.partly else "yes"
        record = replace(record, rendered=RenderedAs(state, result.engine, round(1000 * result.cpu_seconds), why))
        return replace(finished, record=record, answer=answer, body=result.html, charset="utf-8", rendering=rendering)

    def learned(self, lease: Lease, finished: Finished, before: PageFacts, body: bytes, after: PageFacts) -> Finished:
        """Learn from a rendered page: what it said, with its ``body``, and what its document says."""
        return self._pays.learned(lease, finished, (before, body), (after, finished.body or b""))

    def with_ways(self, finished: Finished, links: PageLinks) -> PageLinks:
        """The links of a document, and where its scripts went with it."""
        assert finished.rendering is not None
        result, href = finished.rendering.result, finished.record.entry.href
        assert isinstance(result, Rendered)
        ways = [way for way in (result.moved, result.url) if way is not None and way.partition("#")[0] != href]
        refresh = links.refresh if result.moved is None else Refresh(0, result.moved)
        return replace(links, hrefs=[*links.hrefs, *ways], refresh=refresh)

    def _when(self, lease: Lease, finished: Finished, facts: PageFacts) -> str | None:
        """Return which pages of the host are to be rendered; None if this one is not one of them anyway."""
        record, when = finished.record, self._sites.of_host(lease.host.name).browser.when
        if when == "never" or facts.challenge is not None or record.entry.is_leaf or not is_html(record.content_type):
            return None
        if not 200 <= (record.status or 0) < 300:
            return None
        return when

    @contextmanager
    def _waits(self, host: Host) -> Iterator[None]:
        """A page of the host waits for the browser. While many do, the host is asked for no more: each takes memory,
        and the slots are for all hosts. It leaves twice as many as it takes."""
        waiting, frontier = self._waiting, self._job.frontier
        waiting[host.name] += 1
        if not host.waits and 2 * waiting[host.name] + 2 > self._context.capacity().slots - waiting.total():
            frontier.hold_queue(host, True)
        try:
            yield
        finally:
            waiting[host.name] -= 1
            if not waiting[host.name]:
                del waiting[host.name]
            if host.waits:
                frontier.hold_queue(host, False)  # one more may come for the one that leaves
                self._context.wake()


def rendering_of(robots: RobotsVisits, discovery: Discovery, settings: Settings, keep: Keeps | None) -> PageRendering:
    """What renders the pages of a run. ``keep``: which exchanges are kept as they were on the wire."""
    return PageRendering(PageNetwork(robots, discovery, settings, keep))
