"""Decides which of the links found belong to the crawl, and why the others do not.

The rules apply in this order, and a link is counted by the first rule that rejects it:

    depth      links from a seed                          ``crawl.max_depth``
    scope      host, domain or prefix of the seeds        ``crawl.scope``, ``crawl.hops_outside``, ``links.external``
    include    one of them must match, if there are any   ``scope.include``
    exclude    none of them may match                     ``scope.exclude``
    length     characters                                 ``links.max_url_length``

A ``[[site]]`` may have its own include and exclude patterns for its URLs. Include and exclude do not apply to seeds and
their redirects, because the user named them. Include does not apply to sitemaps, because only the URLs in them are
wanted. A sitemap need not be in scope if a site in scope vouches for it, in its robots.txt or by a redirect. The
crawl's own include patterns do not apply to hops off the site, because they describe the site.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec import Struct, field

from crawler.base.settings.parts import LEAF, Settings
from crawler.url.scope.modes import HREF, L, Scope
from crawler.url.scope.patterns import Pattern, first_match
from crawler.url.scope.url_sites import UrlSites


class Outside(StrEnum):
    """Why a link does not belong to the crawl."""

    TOO_DEEP = "too_deep"
    OFF_SCOPE = "off_scope"
    NOT_INCLUDED = "not_included"
    EXCLUDED_BY_PATTERN = "excluded_by_pattern"
    TOO_LONG = "too_long"
    FILTERED = "filtered"  # rejected by the user's code, which is called after all other rules


class Reach(Struct):
    """The links of one page that are off the site. ``page``: how many hops off the site the page is. ``of``: the reach
    (hops, or LEAF) of those links that belong to the crawl, by href."""

    page: int
    of: dict[str, int] = field(default_factory=dict)


class Boundary:
    """The boundary of one run. ``scope`` may grow during use. Raises PatternError for a pattern that no URL can
    match."""

    def __init__(self, scope: Scope, settings: Settings) -> None:
        self._sites = UrlSites.of_settings(settings)
        self._scope = scope
        self._include = tuple(map(Pattern, settings.scope.include))
        self._exclude = tuple(map(Pattern, settings.scope.exclude))
        self._max_depth = settings.crawl.max_depth  # in links from a seed
        self._max_length = settings.links.max_url_length  # in characters
        self._hops = settings.crawl.hops_outside  # consecutive hops outside the scope
        self._external = settings.links.external  # True if URLs outside the scope are followed as leaves

    def reach(self, href: str, reach: int) -> Reach:
        """Create the ``Reach`` for the links of a page."""
        return Reach(self.hops(href, reach))

    def hops(self, href: str, reach: int) -> int:
        """Return how many hops off the site a page is. The scope may have grown since the page was found."""
        return reach if reach and not self._scope.contains(href) else 0

    def inside(
        self,
        links: Sequence[L],
        depth: int,
        outside: dict[Outside, int],
        *,
        seed: bool = False,
        vouched: Collection[str] | None = None,
        reach: Reach | None = None,
    ) -> list[L]:
        """Return the links that belong to the crawl; the others are counted in ``outside``. ``seed``: the links are
        seeds or their redirects. ``vouched``: the links are sitemaps, which need not match an include pattern; those
        with these hrefs need not be in scope either. Without ``reach``, no link may lead off the site."""
        if self._max_depth is not None and depth > self._max_depth:
            _count(outside, Outside.TOO_DEEP, len(links))
            return []
        left = self._scope.inside(links)
        if vouched and len(left) < len(links):
            near = {link.href for link in left}.union(vouched)
            left = [link for link in links if link.href in near]
        beyond: set[str] = set()
        off_site = reach is not None and reach.page < (1 if self._external else self._hops)
        if off_site and len(left) < len(links):
            beyond = {link.href for link in links}.difference([link.href for link in left])
            left = list(links)
        _count(outside, Outside.OFF_SCOPE, len(links) - len(left))
        if (self._include or self._exclude or self._sites is not None) and not seed:
            left = self._matching(left, outside, beyond, listing=vouched is not None)
        short = left
        if max(map(len, map(HREF, left)), default=0) > self._max_length:
            short = [link for link in left if len(link.href) <= self._max_length]
            _count(outside, Outside.TOO_LONG, len(left) - len(short))
        if beyond and reach is not None:
            far = LEAF if self._external else reach.page + 1
            reach.of.update((link.href, far) for link in short if link.href in beyond)
        return short

    def embedded(
        self, links: Sequence[L], depth: int, outside: dict[Outside, int], reach: Reach, *, anywhere: bool
    ) -> list[L]:
        """Return the embedded resources of a page that should be fetched. Those that would not belong to the crawl as
        links become leaves. ``anywhere``: include resources outside the scope."""
        if not anywhere:
            wanted = self._scope.inside(links)
            _count(outside, Outside.OFF_SCOPE, len(links) - len(wanted))
            links = wanted
        as_links = {link.href for link in self.inside(links, depth, {}, reach=reach)}
        found: list[L] = []
        for link in links:
            if link.href not in as_links:
                if self.excluded(link.href) is not None:
                    _count(outside, Outside.EXCLUDED_BY_PATTERN, 1)
                    continue
                if len(link.href) > self._max_length:
                    _count(outside, Outside.TOO_LONG, 1)
                    continue
                reach.of[link.href] = LEAF
            found.append(link)
        return found

    def excluded(self, href: str) -> str | None:
        """Return the rule that now excludes a pending URL; None if it may be fetched."""
        if not self._exclude and self._sites is None:
            return None
        _, exclude = self._patterns(href)
        pattern = first_match(exclude, href)
        if pattern is None:
            return None
        return f"{'scope' if exclude is self._exclude else 'site'}.exclude: {pattern.text}"

    def explain(self, href: str, depth: int | None) -> list[str]:
        """Return sentences that give the verdict of each rule on a URL at ``depth`` (None: unknown)."""
        said = [self._scope.explain(href)]
        if self._external and not self._scope.contains(href):
            said.append(
                "It is fetched if a page in scope links to it, but its links are not followed (links.external)."
            )
        elif self._hops and not self._scope.contains(href):
            far = "1 hop" if self._hops == 1 else f"{self._hops} hops"
            said.append(f"If a page links to it, it is followed up to {far} outside the scope (crawl.hops_outside).")
        include, exclude = self._patterns(href)
        if include is self._include and self._hops and not self._scope.contains(href):
            include = ()  # they describe the site
        if include:
            pattern, place = first_match(include, href), "scope" if include is self._include else "site"
            said.append(
                f"Included: it matches {pattern.text}." if pattern else f"Not included: it matches no {place}.include."
            )
        excluded = self.excluded(href)
        if exclude:
            place = "scope" if exclude is self._exclude else "site"
            said.append(
                f"Not excluded: it matches no {place}.exclude." if excluded is None else f"Excluded by {excluded}."
            )
        if depth is not None and self._max_depth is not None:
            word = "Too deep" if depth > self._max_depth else "Not too deep"
            said.append(f"{word}: depth {depth}, crawl.max_depth is {self._max_depth}.")
        if len(href) > self._max_length:
            said.append(f"Too long: {len(href)} characters, links.max_url_length is {self._max_length}.")
        return said

    def _patterns(self, href: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
        """Return the include and exclude patterns that apply to the URL."""
        if self._sites is None:
            return self._include, self._exclude
        own = self._sites.of_url(href)
        include = self._include if own.include is None else own.include
        return include, self._exclude if own.exclude is None else own.exclude

    def _matching(
        self, links: list[L], outside: dict[Outside, int], beyond: Collection[str], *, listing: bool
    ) -> list[L]:
        kept: list[L] = []
        include, exclude = self._include, self._exclude
        for link in links:
            if self._sites is not None:
                include, exclude = self._patterns(link.href)
            needs = include and not listing and not (include is self._include and link.href in beyond)
            if needs and first_match(include, link.href) is None:
                _count(outside, Outside.NOT_INCLUDED, 1)
            elif first_match(exclude, link.href) is not None:
                _count(outside, Outside.EXCLUDED_BY_PATTERN, 1)
            else:
                kept.append(link)
        return kept


def _count(outside: dict[Outside, int], reason: Outside, links: int) -> None:
    """Count links that do not belong to the crawl; a reason without links has no entry."""
    if links:
        outside[reason] = outside.get(reason, 0) + links
