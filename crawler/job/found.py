"""URLs on their way into the seen-set and the queue: where and how they were found, and which job they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta, Struct, field

from crawler.base.kv import Batch
from crawler.base.settings.parts import CLASSES, LEAF
from crawler.frontier.entry import Entry
from crawler.frontier.order import Place
from crawler.frontier.signals import Stated
from crawler.job.records import PageRecord
from crawler.url.scope.boundary import Outside
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.extract.edges import Edge

SITEMAP_DEPTH = 1  # of a sitemap listed in robots.txt


class Candidate(Struct, frozen=True, array_like=True):
    """What is known of one URL, besides where it was found: its ``reach``, if it is off the site (hops, or LEAF); the
    class that its score gives it (``priority``); what a sitemap says of it: its priority from 0 to 1 (``listed``), and
    when it changed (``stated``)."""

    reach: Annotated[int, Meta(ge=0, le=LEAF)] = 0
    priority: Annotated[int, Meta(ge=0, lt=CLASSES)] | None = None
    listed: float | None = None
    stated: Stated | None = None


Candidates = Mapping[str, Candidate]  # by href; a URL of which nothing is known has none
NOTHING_KNOWN: Candidates = MappingProxyType({})
UNKNOWN = Candidate()


def candidates_of(reach: Mapping[str, int]) -> Candidates:
    """The candidates for URLs with these reaches, by href."""
    return {href: Candidate(hops) for href, hops in reach.items()} if reach else NOTHING_KNOWN


class Found(NamedTuple):
    """URLs that were found together, in one place and in one way.

    ``found_at`` is when they were found as links, in seconds since 1970. It is None for URLs that a user added; no trap
    refuses those. ``sitemaps``: a site lists them as such. ``share`` is the importance that their page hands on. If
    their page is a ``copy`` of another, all new URLs are refused. ``probe``: the crawler made them up, to learn what
    the host sends for paths that do not exist. ``priority``: the class that a user gave them. ``candidates``: what is
    known of some of them; a URL that waits in a later class than its score gives it moves. ``chain``: the redirects
    that led to them, of a crawl that keeps cookies."""

    urls: Sequence[Canonical]
    depth: int
    via: str | None = None
    seed: bool = False
    redirects: int = 0
    found_at: float | None = None
    sitemaps: bool = False
    share: float = 0.0
    copy: PageRecord | None = None
    probe: bool = False
    priority: int | None = None
    candidates: Candidates = NOTHING_KNOWN
    chain: bytes = b""


class Outlinks(Struct, frozen=True):
    """Some links of a page: ``found`` counts the distinct links, ``inside`` holds those that may be admitted, and
    ``outside`` counts those that a limit left out."""

    found: int
    inside: list[Canonical]
    left_out: Sequence[Canonical] = ()  # what could be admitted if the page were not a copy
    outside: dict[Outside, int] = field(default_factory=dict)
    candidates: Candidates = NOTHING_KNOWN  # what is known of some of those in ``inside``
    edges: list[Edge] = field(default_factory=list)  # of the link graph, if an output wants them
    urls: Sequence[Canonical] = ()  # all of the page, whether they are followed or not


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
