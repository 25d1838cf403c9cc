"""Whether a page has changed since its last visit, if code of the user says so instead of a comparison."""

from __future__ import annotations

from msgspec.structs import replace

from crawler.engine.context import Context, without_host
from crawler.engine.page_handler import HandedPage
from crawler.engine.user_code import AsksOfChange, PreviousVisit
from crawler.frontier.lease import Lease
from crawler.job.job import Job
from crawler.job.records import Outcome
from crawler.job.verdict import Draft


class ChangeCheck:
    """Asks the code about pages of one run that are visited again, and that their servers sent again."""

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


def _follows_none(_: str) -> bool:
    raise ValueError("a function that says whether a page has changed follows no links")
