"""URLs on their way into the seen-set and the queue: where and how they were found, and which job they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from crawler.base.kv import Batch
from crawler.frontier.entry import Entry
from crawler.frontier.order import Place
from crawler.frontier.signals import Statements
from crawler.job.records import PageRecord
from crawler.url.scope.boundary import Outside
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.extract.edges import Edge

NONE_OUTSIDE: Mapping[str, int] = MappingProxyType({})
SITEMAP_DEPTH = 1  # of a sitemap listed in robots.txt


class Listing(Struct, frozen=True):
    """What a site says about the URLs that it lists: their ``priorities`` from 0 to 1, by href, whether they are
    ``sitemaps``, and when its own pages changed (``statements``)."""

    priorities: Mapping[str, float]
    sitemaps: bool
    statements: Statements = field(default_factory=dict)


DECLARED = Listing({}, True)
UNLISTED = Listing({}, False)


class Found(NamedTuple):
    """URLs that were found together, in one place and in one way.

    ``found_at`` is when they were found as links, in seconds since 1970. It is None for URLs that a user added; no trap
    refuses those. ``listing`` is what a sitemap says about its URLs. ``share`` is the importance that their page hands
    on. If their page is a ``copy`` of another, all new URLs are refused. ``probe``: the crawler made them up, to learn
    what the host sends for paths that do not exist. ``priority``: the class that a user gave them. ``reach``: that of
    those which are off the site, by href. ``classes``: those that their scores give them, by href; a URL that waits in
    a later one moves. ``chain``: the redirects that led to them, of a crawl that keeps cookies."""

    urls: Sequence[Canonical]
    depth: int
    via: str | None = None
    seed: bool = False
    redirects: int = 0
    found_at: float | None = None
    listing: Listing | None = None
    share: float = 0.0
    copy: PageRecord | None = None
    probe: bool = False
    priority: int | None = None
    reach: Mapping[str, int] = NONE_OUTSIDE
    classes: Mapping[str, int] | None = None
    chain: bytes = b""


class Outlinks(Struct, frozen=True):
    """Some links of a page: ``found`` counts the distinct links, ``inside`` holds those that may be admitted, and
    ``outside`` counts those that a limit left out."""

    found: int
    inside: list[Canonical]
    listing: Listing | None = None  # how the URLs are listed, if a sitemap lists them
    left_out: Sequence[Canonical] = ()  # what could be admitted if the page were not a copy
    outside: dict[Outside, int] = field(default_factory=dict)
    reach: Mapping[str, int] = field(default_factory=dict)  # of those that are off the site
    edges: list[Edge] = field(default_factory=list)  # of the link graph, if an output wants them
    urls: Sequence[Canonical] = ()  # all of the page, whether they are followed or not
    classes: Mapping[str, int] | None = None  # of those in ``inside``, by their scores


NO_LINKS = Outlinks(0, [])


class Decided(NamedTuple):
    """How many doubted URLs were looked up, and how many of them were new that somebody named, and no page."""

    looked_up: int = 0
    named: int = 0


class Brought(Struct, frozen=True):
    """A request that another fetcher brings. Its ``name`` is what the seen-set hashes, and the fragment of the href of
    its ``entry``; ``stored`` is the request as that fetcher wrote it."""

    name: str
    entry: Entry
    place: Place
    stored: bytes


class Router(Protocol):
    """Decides which URLs are admitted to this job. The others are neither seen nor queued here."""

    def keeps(self, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        """Those of the URLs that belong to this job, in order. Changes nothing."""

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        """The URLs of ``found.urls`` that belong to this job, in order. Anything to be kept about the others goes into
        ``batch``, which is written in the same transaction. The method may be called again with the same URLs, because
        after a crash their page is visited once more."""


class KeepAll:
    """The router of a single job: every URL belongs to it."""

    def keeps(self, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        return urls

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        return found.urls


KEEP_ALL = KeepAll()
