"""User code that judges pages and their links: which links are followed, and how early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from crawler.engine.handed_page import HandedPage  # processes with user code do not load the engine

SITEMAP = "sitemap"  # the kind of a link from a sitemap


class Link(Struct, frozen=True):
    """A link that the crawl may follow: ``url`` is its canonical target, and ``page`` the URL of the page that contains
    it. ``text`` is the text of the link's element and ``rel`` its attribute; ``kind`` is the name of the element, or
    ``header``, ``redirect``, ``sitemap``, or ``own`` for a link that user code adds. ``depth`` is the URL's depth, in
    links from a seed. ``page_score`` is the score of the page from ``score_page``."""

    url: str
    page: str
    text: str = ""
    rel: str = ""
    kind: str = "a"
    depth: int = 0
    page_score: float = 0.5


class LinkJudge(Protocol):
    """The calls that a run makes to the code. None of them raises: on failure, the answer is neutral."""

    @property
    def filters(self) -> bool:
        """True if links may be refused."""

    @property
    def scores(self) -> bool:
        """True if links get scores."""

    @property
    def rates(self) -> bool:
        """True if pages get scores."""

    async def wanted(self, links: Sequence[Link]) -> Sequence[bool]:
        """Return for each link whether to follow it."""

    async def score_links(self, links: Sequence[Link]) -> Sequence[float]:
        """Return a score from 0 to 1 for each link."""

    async def score_page(self, page: HandedPage) -> float | None:
        """Return a score from 0 to 1, or None if the code fails."""
