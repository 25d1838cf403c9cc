"""Passes a page to user code before it is finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from crawler.engine.context import Context, without_host
from crawler.engine.focusing import Focusing
from crawler.engine.handed_page import HANDED_OVER, HandedPage, PageHandler
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.user_code import AsksOfChange, PreviousVisit
from crawler.frontier.lease import Lease
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.records import Outcome
from crawler.job.verdict import Draft


class HandingOver:
    """Passes the pages of one run to ``handler``."""

    def __init__(
        self, job: Job, discovery: Discovery, handler: PageHandler, focus: Focusing | None, context: Context
    ) -> None:
        self._focus = focus
        self._job = job
        self._discovery = discovery
        self._handler = handler
        self._context = context

    def wants_body(self, content_type: str | None) -> bool:
        """Return whether the code may need bodies of this type (``type/subtype`` in lower case)."""
        return self._handler.choice.has_type(content_type)

    def wants(self, draft: Draft) -> bool:
        """Return whether the page is passed to the code. Probes and pages that may not be used are never passed."""
        record = draft.record
        is_one = draft.is_kept and record.outcome in HANDED_OVER and not record.entry.probe
        return is_one and self._handler.choice.wants(record.entry.href, record.status or 0, record.content_type)

    async def hand_over(self, lease: Lease, draft: Draft) -> HandedPage:
        """Wait until the code is done with the page, and add its result. Raises Withdrawn."""
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
        """A context that finishes the page. If it raises, the page is not finished."""
        finished = False
        try:
            yield
            finished = True
        finally:
            self._handler.ended(page, finished=finished)


class ChangeCheck:
    """Calls user code to decide whether revisited pages have changed, if their servers sent them again."""

    def __init__(self, job: Job, ask: AsksOfChange, context: Context) -> None:
        self._job = job
        self._ask = ask
        self._context = context

    async def check(self, lease: Lease, draft: Draft) -> None:
        """Add the code's decision to the page, if there is an earlier visit to compare with. Raises Withdrawn."""
        job, record, answer = self._job, draft.record, draft.answer
        if record.outcome is not Outcome.FETCHED or not draft.is_page or not record.entry.revisit or answer is None:
            return
        before = job.revisiting.state_of(record.entry)
        if before is None or before.fingerprint is None or answer.fingerprint is None:
            return  # no earlier answer to compare with
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
    """Connects the visits of one run to user code."""

    handing_over: HandingOver | None
    focus: Focusing | None
    changes: ChangeCheck | None

    @classmethod
    def of(cls, job: Job, discovery: Discovery, relevant: float, context: Context) -> OwnCode:
        """``relevant``: the lowest score of a page that counts as relevant."""
        handler, judge = context.code.handler, context.code.judge
        focus = None if judge is None else Focusing(job, judge, relevant, context)
        handing_over = None if handler is None else HandingOver(job, discovery, handler, focus, context)
        asks = context.code.is_changed
        return cls(handing_over, focus, None if asks is None else ChangeCheck(job, asks, context))


def _follows_none(_: str) -> bool:
    raise ValueError("is_changed cannot follow links")
