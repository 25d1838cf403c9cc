"""Discover: from text that names URLs to the URLs that may be admitted.

    seeds      lines -> canonical, each widens the scope
    outlinks   a page's body -> its links, canonical -> those in scope
    sitemap    what it lists -> canonical -> those in scope
    redirect   a Location -> the one link that it is

What is left out is counted where it is left out. Nothing is admitted here: that is one step with the end of the visit.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crawler.frontier import Entry
from crawler.job.found import SITEMAP_DEPTH, Listing
from crawler.job.job import Job
from crawler.links import Listed, encode_queries, extract_links
from crawler.records import count_outside
from crawler.scope import LISTED_PRIORITY, Boundary, Outside
from crawler.settings import LinkSettings, Settings, TrapSettings
from crawler.traps import Content, Copies
from crawler.urls import Canonical, Canonicaliser, Rejected

log = logging.getLogger("crawler")

_SHOWN = 200  # characters of foreign text in a message


@dataclass(frozen=True, slots=True)
class Outlinks:
    """What a page links to: ``found`` distinct links taken from it, ``inside`` those that may be admitted."""

    found: int
    inside: list[Canonical]
    cut: bool = False  # it holds more links than are taken from one page
    content: Content | None = None
    listing: Listing | None = None  # where a sitemap lists them
    left_out: Sequence[Canonical] = ()  # what might be admitted, were the page no copy


@dataclass(frozen=True, slots=True)
class Target:
    """Where a redirect leads: its ``location`` as the record shows it, the link to follow, or why there is none."""

    location: str
    inside: list[Canonical]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """URLs that were added to a job: those that may be admitted, how many are out of scope, and invalid texts, with the
    reason."""

    inside: list[Canonical]
    outside: int
    rejected: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """What discovery is told."""

    rules: tuple[str, ...]  # of canonicalisation
    links: LinkSettings
    traps: TrapSettings
    max_redirects: int  # in a row

    @classmethod
    def of(cls, settings: Settings) -> DiscoverySettings:
        return cls(settings.canonical.rules, settings.links, settings.traps, settings.fetch.max_redirects)


class Discovery:
    """The links of one run over a job. ``boundary`` says what of them belongs to it."""

    def __init__(self, job: Job, boundary: Boundary, settings: DiscoverySettings) -> None:
        self._job = job
        self._boundary = boundary
        self._settings = settings
        self._canonicaliser = Canonicaliser(settings.rules)
        self._copies = Copies(settings.traps, job.store)
        self.seeds_rejected = 0

    @classmethod
    def of(cls, job: Job, settings: Settings) -> Discovery:
        return cls(job, Boundary.of(job.scope, settings), DiscoverySettings.of(settings))

    def seeds(self, lines: list[str]) -> list[Canonical]:
        """The URLs of the lines. Invalid lines are counted and logged."""
        found: list[Canonical] = []
        for line in lines:
            url = self._canonicaliser.canonicalise(line)
            if isinstance(url, Rejected):
                self.seeds_rejected += 1
                log.warning("seed skipped: %s: %s", shown(line), url.reason)
                continue
            found.append(url)
        return found

    def added(self, texts: Sequence[str], *, seed: bool) -> Added:
        """Those of the added URLs that may be admitted; with ``seed`` each widens the scope."""
        found: list[Canonical] = []
        rejected: list[tuple[str, str]] = []
        for text in texts:
            url = self._canonicaliser.canonicalise(text)
            if isinstance(url, Rejected):
                rejected.append((shown(text), url.reason))
            else:
                found.append(url)
        if seed:
            for url in found:
                self._job.widen(url.href)
        inside = self._inside(found, 0, seed=seed)
        return Added(inside, len(found) - len(inside), tuple(rejected))

    def outlinks(self, entry: Entry, body: bytes, charset: str | None) -> Outlinks:
        """The links of a page that was fetched."""
        page = extract_links(body, charset, self._settings.links)
        base = entry.href
        if page.base is not None:
            resolved = self._canonicaliser.canonicalise(page.base, entry.href)
            base = base if isinstance(resolved, Rejected) else resolved.href
        urls, rejected = self._canonicaliser.outlinks(base, encode_queries(page.hrefs, page.encoding))
        self._job.counters.links += len(urls)
        self._job.counters.rejected_links += rejected
        self._job.counters.pages_cut += page.truncated
        content = self._copies.marks(entry.href, body)
        depth, links = entry.depth + 1, [] if page.nofollow else urls
        if self._of_copy(content):
            # All are counted as what they are first of all, whatever else might have kept them out.
            self._job.counters.links_of_copies += len(urls)
            left_out = self._boundary.inside(links, depth, Counter())
            return Outlinks(len(urls), [], page.truncated, content, left_out=left_out)
        return Outlinks(len(urls), self._inside(links, depth), page.truncated, content)

    def sitemap(self, entry: Entry, listed: Sequence[Listed], *, index: bool) -> Outlinks:
        """Some of the URLs that a sitemap lists. They are as deep as the sitemap itself; one link deep if it is
        a seed."""
        found: dict[str, Canonical] = {}
        priorities: dict[str, float] = {}
        for one in listed:
            url = self._canonicaliser.canonicalise(one.href, entry.href)
            if isinstance(url, Rejected):
                self._job.counters.rejected_links += 1
                continue
            found.setdefault(url.key, url)
            priorities.setdefault(url.href, LISTED_PRIORITY if one.priority is None else one.priority)
        self._job.counters.links += len(found)
        inside = self._inside(list(found.values()), listed_depth(entry), listing=index)
        return Outlinks(len(found), inside, listing=Listing(priorities, index))

    def named_sitemaps(self, robots: str, named: Sequence[str]) -> list[Canonical]:
        """The sitemaps that a robots.txt names, as far as they are in scope."""
        urls, rejected = self._canonicaliser.outlinks(robots, named)
        self._job.counters.rejected_links += rejected
        return self._inside(urls, SITEMAP_DEPTH, listing=True)

    def redirect(self, entry: Entry, location: str) -> Target:
        """A redirect is a newly discovered link at the same depth; that of a seed widens the scope."""
        url = self._canonicaliser.canonicalise(location, entry.href)
        if isinstance(url, Rejected):
            return Target(location, [], f"redirect to {shown(location)}: {url.reason}")
        if entry.redirects >= self._settings.max_redirects:
            many = f"redirect number {entry.redirects + 1} in a row: not followed (fetch.max_redirects)"
            return Target(url.href, [], many)
        if entry.seed and self._job.widen(url.href):
            log.warning("scope widened: seed %s redirects to %s", entry.href, url.href)
        return Target(url.href, self._inside([url], entry.depth, seed=entry.seed))

    def excluded(self, entry: Entry) -> str | None:
        """The rule by which a URL that was admitted is not fetched after all."""
        return None if entry.seed else self._boundary.excluded(entry.href)

    def _of_copy(self, content: Content | None) -> bool:
        """Whether the page is a copy, and its links are to be left alone."""
        if content is None or content.duplicate_of is None:
            return False
        self._job.counters.copies += 1
        return self._settings.traps.duplicates == "skip-links"

    def _inside(
        self, urls: list[Canonical], depth: int, *, seed: bool = False, listing: bool = False
    ) -> list[Canonical]:
        counters, outside = self._job.counters, Counter[Outside]()
        inside = self._boundary.inside(urls, depth, outside, seed=seed, listing=listing)
        for reason, links in outside.items():
            count_outside(counters, reason, links)
        return inside


def listed_depth(entry: Entry) -> int:
    """How deep the URLs are that a sitemap lists."""
    return max(SITEMAP_DEPTH, entry.depth)


def shown(text: str) -> str:
    """Foreign text for a message: cut where it is long, control characters escaped."""
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return short.encode("unicode_escape").decode("ascii")
