"""Handing over: a page waits for the code of the user before it is finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from crawler.engine.context import Context, without_host
from crawler.engine.discover import Discovery
from crawler.engine.focusing import Focusing
from crawler.engine.page_handler import HANDED_OVER, HandedPage, PageHandler
from crawler.engine.user_code import AsksOfChange, PreviousVisit
from crawler.frontier.lease import Lease
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.records import Outcome
from crawler.job.verdict import Draft


class HandingOver:
    """Hands the pages of one run over to ``handler``."""

    def __init__(
        self, job: Job, discovery: Discovery, handler: PageHandler, focus: Focusing | None, context: Context
    ) -> None:
        self._focus = focus
        self._job = job
        self._discovery = discovery
        self._handler = handler
        self._context = context

    def wants_body(self, content_type: str | None) -> bool:
        """See ``PageHandler``."""
        return self._handler.wants_body(content_type)

    def wants(self, draft: Draft) -> bool:
        """Whether the page is handed over. What the crawler made up, and what may not be used, never is."""
        record = draft.record
        is_one = draft.is_kept and record.outcome in HANDED_OVER and not record.entry.probe
        return is_one and self._handler.wants(record)

    async def hand_over(self, lease: Lease, draft: Draft) -> HandedPage:
        """Wait until the code is done with the page, and add what it says. Raises Withdrawn."""
        job, discovery, entry, record = self._job, self._discovery, draft.record.entry, draft.record
        hrefs = [url.href for url in draft.links.urls]
        page = HandedPage(job.name_of_visit(entry), draft, hrefs, partial(discovery.follows, entry))
        with without_host(self._context, job.frontier, lease, draft.request):
            handled = await self._handler.handle(page)
            named = discovery.named(entry, handled.links) if handled.links else None
            if named is not None and self._focus is not None:
                named = await self._focus.named(draft, named)
        await job.room()
        if named is not None and record.outcome is Outcome.REDIRECT:
            # The one link of a redirect is at the depth of the redirect.
            now = self._context.clock()
            job.admit(Found(named.inside, entry.depth + 1, entry.href, found_at=now, candidates=named.candidates))
        elif named is not None:
            links = draft.links
            inside, candidates = [*links.inside, *named.inside], {**links.candidates, **named.candidates}
            draft.links = replace(links, inside=inside, candidates=candidates)
        record.id, record.data, record.data_error = page.id, handled.data, handled.error
        draft.is_kept = handled.keep
        return page

    @contextmanager
    def finishing(self, page: HandedPage) -> Iterator[None]:
        """A context in which the page is finished, or which raises."""
        finished = False
        try:
            yield
            finished = True
        finally:
            self._handler.ended(page, finished=finished)


class ChangeCheck:
    """Asks code of the user whether pages have changed that are visited again, and that their servers sent again."""

    def __init__(self, job: Job, ask: AsksOfChange, context: Context) -> None:
        self._job = job
        self._ask = ask
        self._context = context

    async def check(self, lease: Lease, draft: Draft) -> None:
        """Add to the page what the code says of it, if it is one that it can be asked about. Raises Withdrawn."""
        job, record, answer = self._job, draft.record, draft.answer
        if record.outcome is not Outcome.FETCHED or not draft.is_page or not record.entry.revisit or answer is None:
            return
        before = job.revisiting.state_of(record.entry)
        if before is None or before.fingerprint is None or answer.fingerprint is None:
            return  # there is nothing to compare it with
        same = before.fingerprint == answer.fingerprint if answer.is_comparable(before) else None
        known = PreviousVisit(before.visits, before.changes, before.visited_at, before.etag, before.last_modified, same)
        urls = [url.href for url in draft.links.urls]
        with without_host(self._context, job.frontier, lease, draft.request):
            page = HandedPage(job.name_of_visit(record.entry), draft, urls, _follows_none)
            changed = await self._ask(page, known)
        await job.room()
        if changed is not None:
            draft.answer = replace(answer, changed=changed)


class OwnCode(Struct, frozen=True):
    """Where the visits of one run meet code of the user."""

    handing_over: HandingOver | None
    focus: Focusing | None
    changes: ChangeCheck | None

    @classmethod
    def of(cls, job: Job, discovery: Discovery, relevant: float, context: Context) -> OwnCode:
        """``relevant``: the least score of a page that is wanted."""
        handler, judge = context.code.handler, context.code.judge
        focus = None if judge is None else Focusing(job, judge, relevant, context)
        handing_over = None if handler is None else HandingOver(job, discovery, handler, focus, context)
        asks = context.code.is_changed
        return cls(handing_over, focus, None if asks is None else ChangeCheck(job, asks, context))


def _follows_none(_: str) -> bool:
    raise ValueError("a function that says whether a page has changed follows no links")
