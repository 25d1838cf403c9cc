"""User code on each page: which pages it gets, what it returns, and how a visit waits for it.

A page is passed to the code after its response is read and its links are found. Its host is released by then, so the
code's time never counts as the host's. The URL stays in flight until the code has returned: if the program is killed
before that, a later run fetches the page and passes it to the code again, with the same ``id``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from crawler.job.records import Outcome, PageRecord
from crawler.job.verdict import Draft
from crawler.url.scope.store_choice import StoreChoice

HANDED_OVER = frozenset((Outcome.FETCHED, Outcome.REDIRECT))


class Withdrawn(Exception):
    """The page will not be handled in this run; its URL stays pending."""


class HandedPage(Struct, frozen=True):
    """A page for user code. ``id`` identifies the visit: it is unique in the job, and the page keeps it if it is passed
    to the code again. ``links`` are the distinct canonical URLs of the page's links, in page order. ``follows(text)``
    returns whether the crawl would follow a link of the page.
    """

    id: str
    draft: Draft
    links: Sequence[str]
    follows: Callable[[str], bool]

    @property
    def record(self) -> PageRecord:
        """The record of the page without the code's additions."""
        return self.draft.record


class Handled(Struct, frozen=True):
    """The code's result for a page: ``data`` for its record, which is valid JSON, and ``links`` to follow besides the
    page's own, as written. ``keep``: whether outputs keep more of the page than its record. ``error``: why the code
    failed on the page, in one line."""

    data: Mapping[str, Any] | None = None
    links: Sequence[str] = ()
    keep: bool = True
    error: str | None = None


class PageHandler(Protocol):
    """The calls of a run to user code. ``choice``: which pages are passed to the code."""

    choice: StoreChoice

    async def handle(self, page: HandedPage) -> Handled:
        """Return the code's result for the page when it is done. Raises Withdrawn."""

    def ended(self, page: HandedPage, *, finished: bool) -> None:
        """Report that the transaction that finishes a handled page has been passed to the operating system, or, if not
        ``finished``, that the run stopped before that."""
