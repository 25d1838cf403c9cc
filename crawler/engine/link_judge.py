"""Code of the user about pages and their links: which links are followed, and how early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from crawler.engine.page_handler import HandedPage  # a process with code of the user loads no engine

SITEMAP = "sitemap"  # the kind of a link that a sitemap lists


class Link(Struct, frozen=True):
    """A link that the crawl may follow: to a canonical ``url``, on the ``page`` with that URL. ``text`` is what its
    element says and ``rel`` the attribute; ``kind`` is the name of the element, or ``header``, ``redirect``,
    ``sitemap``, or ``own`` for one that code of the user named. ``depth`` is that of the URL, in links from a seed.
    ``page_score`` is what ``score_page`` says of the page."""

    url: str
    page: str
    text: str = ""
    rel: str = ""
    kind: str = "a"
    depth: int = 0
    page_score: float = 0.5


class LinkJudge(Protocol):
    """What a run needs of the code. None of the calls raises: where the code cannot say, the answer is neutral."""

    @property
    def filters(self) -> bool:
        """Whether links may be refused."""

    @property
    def scores(self) -> bool:
        """Whether links have scores."""

    @property
    def rates(self) -> bool:
        """Whether pages have scores."""

    async def wanted(self, links: Sequence[Link]) -> Sequence[bool]:
        """Return for each link whether it is followed."""

    async def score_links(self, links: Sequence[Link]) -> Sequence[float]:
        """Return a score from 0 to 1 for each link."""

    async def score_page(self, page: HandedPage) -> float | None:
        """Return a score from 0 to 1; None if the code cannot say."""
