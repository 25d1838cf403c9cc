"""Code of the user on each page: which pages it is given, what it answers, and how a visit waits for it.

A page is handed over when its response is read and its links are found. Its host has its slot back by then, so that
code never counts as the time of a host. The URL stays in flight until the code is done with the page: killed before
that, a later run fetches the page and hands it over again, with the same ``id``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from crawler.job.records import Outcome, PageRecord
from crawler.job.verdict import Draft

HANDED_OVER = frozenset((Outcome.FETCHED, Outcome.REDIRECT))


class Withdrawn(Exception):
    """The page will not be handled in this run: its URL stays pending."""


class HandedPage(Struct, frozen=True):
    """A page for the code of the user. ``id`` names the visit: no other visit of the job has it, and the page keeps it
    when it is handed over again. ``links`` are the distinct URLs that it links to, canonical, in their order.
    ``follows(text)`` says whether the crawl would follow a link of the page; it raises ValueError if the text is no URL
    to crawl."""

    id: str
    draft: Draft
    links: Sequence[str]
    follows: Callable[[str], bool]

    @property
    def record(self) -> PageRecord:
        """The record as it will be, without what the code adds."""
        return self.draft.record


class Handled(Struct, frozen=True):
    """What the code says of a page: ``data`` for its record, which JSON can express, and ``links`` to follow besides
    its own, as written. ``keep``: whether outputs keep anything of the page besides its record. ``error``: why the code
    failed on the page, in one line."""

    data: Mapping[str, Any] | None = None
    links: Sequence[str] = ()
    keep: bool = True
    error: str | None = None


class PageHandler(Protocol):
    """What a run needs of the code of the user."""

    def wants_body(self, content_type: str | None) -> bool:
        """Return whether bodies of this type, ``type/subtype`` in lower case, are read for the code."""

    def wants(self, record: PageRecord) -> bool:
        """Return whether the page is handed over."""

    async def handle(self, page: HandedPage) -> Handled:
        """Return what the code says of the page, as soon as it is done with it. Raises Withdrawn."""

    def ended(self, page: HandedPage, *, finished: bool) -> None:
        """The transaction that finishes a page that was handled is with the operating system; or the page is not
        ``finished`` in this run, because the run has stopped."""
