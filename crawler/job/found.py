"""URLs before their admission to the seen-set and the queue: where and how they were found, and their job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta, Struct, field

from crawler.base.kv import Batch
from crawler.base.settings.parts import CLASSES, LEAF
from crawler.frontier.entry import Entry
from crawler.frontier.order import Place
from crawler.frontier.sitemap_dates import Stated
from crawler.url.scope.boundary import Outside
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.extract.edges import Edge

SITEMAP_DEPTH = 1  # depth of a sitemap listed in robots.txt


class Candidate(Struct, frozen=True, array_like=True):
    """Facts about one URL, in addition to where it was found.

    ``reach``: its hops if it is off the site, or LEAF. ``priority``: the class that results from its score. From a
    sitemap: its priority from 0 to 1 (``listed``), and when it changed (``stated``)."""

    reach: Annotated[int, Meta(ge=0, le=LEAF)] = 0
    priority: Annotated[int, Meta(ge=0, lt=CLASSES)] | None = None
    listed: float | None = None
    stated: Stated | None = None


Depth = Annotated[int, Meta(ge=0, lt=2**32)]


class CopiedPage(Struct, array_like=True, frozen=True):
    """The page with the URLs is a copy of another."""

    href: str
    depth: Depth
    original: str | None


Candidates = Mapping[str, Candidate]  # facts by href; URLs without known facts are missing
NOTHING_KNOWN: Candidates = MappingProxyType({})
UNKNOWN = Candidate()


def candidates_of(reach: Mapping[str, int]) -> Candidates:
    """Return the candidates, by href, for URLs with the given reaches."""
    return {href: Candidate(hops) for href, hops in reach.items()} if reach else NOTHING_KNOWN


class Found(NamedTuple):
    """URLs that were found together, in one place and in one way.

    ``found_at`` is when they were found as links, in seconds since 1970. It is None for URLs that a user added, which
    are exempt from traps. ``sitemaps``: a site lists them as sitemaps. ``share`` is the importance that their page
    passes on. If their page is a ``copy`` of another, all new URLs are refused. ``probe``: the crawler made them up, to
    learn what the host sends for nonexistent paths. ``priority``: the class that a user gave them. ``candidates``:
    facts about some of them; if its score gives a queued URL an earlier class, the URL is moved to that class.
    ``chain``: the redirects that led to them, in a crawl that keeps cookies."""

    urls: Sequence[Canonical]
    depth: int
    via: str | None = None
    seed: bool = False
    redirects: int = 0
    found_at: float | None = None
    sitemaps: bool = False
    share: float = 0.0
    copy: CopiedPage | None = None
    probe: bool = False
    priority: int | None = None
    candidates: Candidates = NOTHING_KNOWN
    chain: bytes = b""


class Outlinks(Struct, frozen=True):
    """Some links of a page: ``found`` counts the distinct links, ``inside`` holds those that may be admitted, and
    ``outside`` counts those that a limit left out."""

    found: int
    inside: list[Canonical]
    left_out: Sequence[Canonical] = ()  # links that could be admitted if the page were not a copy
    outside: dict[Outside, int] = field(default_factory=dict)
    candidates: Candidates = NOTHING_KNOWN  # facts about some of those in ``inside``
    edges: list[Edge] = field(default_factory=list)  # edges of the link graph, if an output needs them
    urls: Sequence[Canonical] = ()  # all links of the page, whether followed or not


NO_LINKS = Outlinks(0, [])


class Decided(NamedTuple):
    """The number of doubted URLs looked up, and the number of those that were new and named by a user, not by a
    page."""

    looked_up: int = 0
    named: int = 0


class Brought(Struct, frozen=True):
    """A request from an external fetcher. The seen-set hashes its ``name``, which is also the fragment of the href of
    its ``entry``; ``stored`` is the request as that fetcher encoded it."""

    name: str
    entry: Entry
    place: Place
    stored: bytes


class Router(Protocol):
    """Decides which URLs are admitted to this job. The others are not added to its seen-set or queue."""

    def keeps(self, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        """Return the URLs that belong to this job, in order. Changes nothing."""

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        """Return the URLs of ``found.urls`` that belong to this job, in order.

        Data to be kept about the others goes into ``batch``, which is written in the same transaction. The method may
        be called again with the same URLs, because after a crash their page is visited again."""


class KeepAll:
    """The router of a single job: every URL belongs to it."""

    def keeps(self, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        return urls

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        return found.urls


KEEP_ALL = KeepAll()
