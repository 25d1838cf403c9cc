"""Focusing: user code scores how relevant each page is, decides which links are followed, and how early.

A visit waits for the code after its response is complete: its host is released, and its URL stays in flight. Pages that
wait at the same time are passed to the code together, see ``LinkJudge``. A score becomes the priority class of a new
URL; a URL that is already pending in a later class moves to the earlier one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack

from msgspec.structs import replace

from crawler.engine.context import Context, without_host
from crawler.engine.handed_page import HandedPage
from crawler.engine.link_judge import SITEMAP, Link, LinkJudge
from crawler.engine.reading import Unreadable
from crawler.frontier.entry import Entry
from crawler.frontier.lease import Lease
from crawler.frontier.order import class_of_score
from crawler.inspect.statistics import Rated
from crawler.job.found import UNKNOWN, Outlinks
from crawler.job.job import Job
from crawler.job.records import count_outside
from crawler.job.verdict import Draft
from crawler.url.scope.boundary import Outside
from crawler.web.extract.edges import USUAL

NEUTRAL = 0.5  # the score of a page or link that the code does not score
RECENT = 1_000  # number of latest pages over which the harvest rate is computed
MANY = 4_000  # a page with more links than this counts as large
OWN = "own"  # the kind of a link that user code adds


class Focusing:
    """Calls the user code for the pages of one run. A page with a score of ``relevant`` or more counts as relevant."""

    def __init__(self, job: Job, judge: LinkJudge, relevant: float, context: Context) -> None:
        self._job = job
        self._judge = judge
        self._relevant = relevant
        self._context = context
        self._large = asyncio.Semaphore(1)  # only one large page waits at a time, because all its links are in memory
        self._last: deque[bool] = deque(maxlen=RECENT)  # whether each of the latest pages was relevant

    @property
    def recent(self) -> Rated | None:
        """How many pages of this run were rated recently, and how many of them were relevant; None if the code does
        not rate pages."""
        return Rated(len(self._last), sum(self._last)) if self._judge.rates else None

    async def page(
        self, lease: Lease, draft: Draft, parts: Iterable[Outlinks | Unreadable], *, rated: bool
    ) -> list[Outlinks | Unreadable]:
        """Rate the page, and return the parts of its links with the code's decisions. ``rated``: the page is the one
        that was requested, not a substitute for it."""
        found: list[Outlinks | Unreadable] = []
        size = 0
        with self._waiting(lease, draft), ExitStack() as held:
            for part in parts:
                if size <= MANY < size + _links_in(part):
                    await self._large.acquire()
                    held.callback(self._large.release)
                size += _links_in(part)
                found.append(part)
                if len(found) > 1:
                    await asyncio.sleep(0)
                    await self._context.turns.turn(bulk=True)
            if rated and self._judge.rates:
                await self._rate(draft, found)
            score = self._page_score(draft)
            judged = [part if isinstance(part, Unreadable) else await self._links(draft, part, score) for part in found]
        await self._job.room()
        return judged

    async def links(self, lease: Lease, draft: Draft, links: Outlinks) -> Outlinks:
        """Return the links of an answer that is not a page, with the code's decisions."""
        if not links.inside:
            return links
        with self._waiting(lease, draft):
            links = await self._links(draft, links, NEUTRAL)
        await self._job.room()
        return links

    async def listed(self, entry: Entry, links: Outlinks, depth: int) -> Outlinks:
        """Return the links of a part of a sitemap, after the user's code has judged them."""
        asked = [Link(url.href, entry.href, kind=SITEMAP, depth=depth) for url in links.inside]
        links = await self._judged(links, asked)
        await self._job.room()
        return links

    async def target(self, lease: Lease, draft: Draft, links: Outlinks) -> Outlinks:
        """Return the target of a redirect, if it is followed. The target gets the class of the URL that redirects to
        it."""
        entry = draft.record.entry
        if not links.inside or entry.seed:
            return links
        if self._judge.filters:
            with self._waiting(lease, draft):
                links = await self._filtered(links, self._asked(draft, links, NEUTRAL, entry.depth))
            await self._job.room()
        return _classed(links, {url.href: entry.priority for url in links.inside}) if self._judge.scores else links

    async def named(self, draft: Draft, links: Outlinks) -> Outlinks:
        """Return the links that user code adds, with their scores. They are not filtered, because the code itself chose
        them."""
        entry, score = draft.record.entry, self._page_score(draft)
        asked = [Link(url.href, entry.href, "", "", OWN, entry.depth + 1, score) for url in links.inside]
        return await self._scored(links, asked) if asked else links

    def _waiting(self, lease: Lease, draft: Draft) -> AbstractContextManager[None]:
        """A context in which the visit waits for the code."""
        return without_host(self._context, self._job.frontier, lease, draft.request)

    async def _rate(self, draft: Draft, parts: Sequence[Outlinks | Unreadable]) -> None:
        record = draft.record
        urls = [url.href for part in parts if isinstance(part, Outlinks) for url in part.urls]
        page = HandedPage(self._job.name_of_visit(record.entry), draft, urls, lambda _: False)
        score = await self._judge.score_page(page)
        record.score, draft.relevant = score, score is not None and score >= self._relevant
        self._last.append(draft.relevant)

    def _page_score(self, draft: Draft) -> float:
        return NEUTRAL if draft.record.score is None else draft.record.score

    async def _links(self, draft: Draft, links: Outlinks, score: float) -> Outlinks:
        return await self._judged(links, self._asked(draft, links, score, draft.record.entry.depth + 1))

    def _asked(self, draft: Draft, links: Outlinks, score: float, depth: int) -> list[Link]:
        """Return the links that may be followed, in the form in which the code gets them."""
        page, said = draft.record.entry.href, {to: (text, facts) for to, text, facts in links.edges}
        asked = []
        for url in links.inside:
            text, facts = said.get(url.href, ("", USUAL))
            asked.append(Link(url.href, page, text, facts.rel, facts.kind, depth, score))
        return asked

    async def _judged(self, links: Outlinks, asked: Sequence[Link]) -> Outlinks:
        if self._judge.filters and asked:
            links = await self._filtered(links, asked)
            inside = {url.href for url in links.inside}
            asked = [link for link in asked if link.url in inside]
        return await self._scored(links, asked) if asked else links

    async def _filtered(self, links: Outlinks, asked: Sequence[Link]) -> Outlinks:
        wanted = await self._judge.wanted(asked)
        refused = {link.url for link, wants in zip(asked, wanted, strict=True) if not wants}
        if not refused:
            return links
        inside = [url for url in links.inside if url.href not in refused]
        count = len(links.inside) - len(inside)
        count_outside(self._job.counters, Outside.FILTERED, count)
        edges = [
            (to, text, facts._replace(why=Outside.FILTERED) if to in refused else facts)
            for to, text, facts in links.edges
        ]
        outside = {**links.outside, Outside.FILTERED: count}
        return replace(links, inside=inside, outside=outside, edges=edges)

    async def _scored(self, links: Outlinks, asked: Sequence[Link]) -> Outlinks:
        if not self._judge.scores:
            return links
        scores = await self._judge.score_links(asked)
        found = {link.url: score for link, score in zip(asked, scores, strict=True)}
        edges = [
            (to, text, facts._replace(score=found[to]) if to in found else facts) for to, text, facts in links.edges
        ]
        return _classed(replace(links, edges=edges), {url: class_of_score(score) for url, score in found.items()})


def _links_in(part: Outlinks | Unreadable) -> int:
    return 0 if isinstance(part, Unreadable) else len(part.urls)


def _classed(links: Outlinks, classes: Mapping[str, int]) -> Outlinks:
    """Return the links with the given priority classes, which are listed by href."""
    known = links.candidates
    new = {href: replace(known.get(href, UNKNOWN), priority=number) for href, number in classes.items()}
    return replace(links, candidates={**known, **new})
