"""The limits of a crawl that a later run may lift, and what that admits.

A limit is *lifted* by a run under whose settings it may admit a link that it left out before. Whether it does, only the
page with the link can tell, so in doubt a limit counts as lifted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

import msgspec.json
from msgspec import Struct

from crawler.base.settings.parts import SCOPES, LinkSettings, Settings, TrapSettings
from crawler.url.scope.boundary import Outside
from crawler.url.scope.patterns import Pattern, PatternError

_WIDTH = {mode: width for width, mode in enumerate(("prefix", "host", "domain", "any"))}
assert set(_WIDTH) == set(SCOPES)


class Limit(StrEnum):
    """A limit by the setting that says it."""

    MAX_DEPTH = "crawl.max_depth"
    SCOPE = "crawl.scope"
    INCLUDE = "scope.include"
    EXCLUDE = "scope.exclude"
    MAX_URL_LENGTH = "links.max_url_length"
    MAX_LINKS = "links.max_links"
    MAX_BODY = "fetch.max_body"
    MAX_SITEMAP_BYTES = "links.max_sitemap_bytes"
    HOPS_OUTSIDE = "crawl.hops_outside"  # has no count of its own: its links are among those of the scope
    FILTER = "hooks.filter_link"
    MAX_SEGMENTS = "traps.max_segments"  # of traps: what has no record, see ``crawler.frontier.traps``
    MAX_REPEATS = "traps.max_repeats"
    MAX_VARIANTS = "traps.max_variants"
    MAX_QUERY_SHAPES = "traps.max_query_shapes"
    MAX_PORTS = "traps.max_ports"
    MAX_HOSTS = "traps.max_hosts"
    DUPLICATES = "traps.duplicates"
    SOFT404 = "traps.soft404"
    MAX_ID_COPIES = "traps.max_id_copies"


# Nobody knows how many links these leave out, so the pages are counted that they cut.
OF_PAGES = frozenset((Limit.MAX_LINKS, Limit.MAX_BODY, Limit.MAX_SITEMAP_BYTES))
_NUMBERS = frozenset(limit for limit in Limit if limit.value.startswith("traps.max_"))
COUNTED = tuple(limit for limit in Limit if limit is not Limit.HOPS_OUTSIDE)
LIMIT_OF = {
    Outside.TOO_DEEP: Limit.MAX_DEPTH,
    Outside.OFF_SCOPE: Limit.SCOPE,
    Outside.NOT_INCLUDED: Limit.INCLUDE,
    Outside.EXCLUDED_BY_PATTERN: Limit.EXCLUDE,
    Outside.TOO_LONG: Limit.MAX_URL_LENGTH,
    Outside.FILTERED: Limit.FILTER,
}


class BoundsError(ValueError):
    """Stored bytes are not the limits of a run."""


class Bounds(Struct, frozen=True):
    """The limits of one run."""

    max_depth: int | None
    scope: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    max_url_length: int
    max_links: int
    max_body: int
    sites: tuple[str, ...] = ()  # the ``[[site]]`` tables with patterns of their own, as text
    max_sitemap_bytes: int = LinkSettings().max_sitemap_bytes
    hops_outside: int = 0
    filter_link: str | None = None  # the function that is asked
    traps: TrapSettings = TrapSettings()
    budgets: str = ""  # ``budgets_of``: they leave out visits

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        patterns, links = settings.scope, settings.links
        return cls(
            settings.crawl.max_depth,
            settings.crawl.scope,
            patterns.include,
            patterns.exclude,
            links.max_url_length,
            links.max_links,
            settings.fetch.max_body,
            tuple(
                json.dumps([table.match, table.include, table.exclude])
                for table in settings.site.tables
                if table.include is not None or table.exclude is not None
            ),
            links.max_sitemap_bytes,
            settings.crawl.hops_outside,
            settings.hooks.filter_link,
            settings.traps,
            budgets_of(settings),
        )

    def lifted(self, now: Bounds) -> frozenset[Limit]:
        """Which of these limits a run with the limits ``now`` lifts."""
        others = now.sites != self.sites
        lifts = {
            Limit.MAX_DEPTH: self.max_depth is not None and (now.max_depth is None or now.max_depth > self.max_depth),
            Limit.SCOPE: _WIDTH[now.scope] > _WIDTH[self.scope],
            Limit.INCLUDE: others or (bool(self.include) and not (now.include and _cover(self.include, now.include))),
            Limit.EXCLUDE: others or not _cover(now.exclude, self.exclude),
            Limit.MAX_URL_LENGTH: now.max_url_length > self.max_url_length,
            Limit.MAX_LINKS: now.max_links > self.max_links,
            Limit.MAX_BODY: now.max_body > self.max_body,
            Limit.MAX_SITEMAP_BYTES: now.max_sitemap_bytes > self.max_sitemap_bytes,
            Limit.HOPS_OUTSIDE: now.hops_outside > self.hops_outside,
            Limit.FILTER: self.filter_link is not None and now.filter_link != self.filter_link,
            Limit.DUPLICATES: _skips(self.traps) > _skips(now.traps),
            Limit.SOFT404: self.traps.soft404 and not now.traps.soft404,
        }
        for limit in _NUMBERS:
            before, after = (getattr(each, limit.value.removeprefix("traps.")) for each in (self.traps, now.traps))
            lifts[limit] = bool(before) and (not after or after > before)
        factors = self.traps.domain_factor, now.traps.domain_factor
        if factors[0] and (not factors[1] or factors[1] > factors[0]):
            lifts[Limit.MAX_VARIANTS] = lifts[Limit.MAX_QUERY_SHAPES] = True
        return frozenset(limit for limit, lifted in lifts.items() if lifted)

    def encode(self) -> bytes:
        """The stored form: JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, value: bytes) -> Bounds:
        """The inverse of ``encode``. Raises BoundsError."""
        try:
            bounds = msgspec.json.decode(value, type=Bounds)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BoundsError(f"not the limits of a run: {error}") from error
        if bounds.scope not in _WIDTH:
            raise BoundsError(f"not the limits of a run: scope {bounds.scope!r}")
        return bounds


def _skips(traps: TrapSettings) -> int:
    """How much counts as a copy whose links are not followed."""
    return (traps.duplicates == "skip-links") * (1 + traps.near_duplicates)


def budgets_of(settings: Settings) -> str:
    """The budgets of all hosts, and those of ``[[site]]`` tables, as text."""
    tables = [(each.match, each.host_pages, each.host_bytes, each.host_seconds) for each in settings.site.tables]
    return repr((settings.budget, tables))


def _cover(patterns: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether each URL that one of ``others`` matches certainly matches one of the patterns too."""
    left = set(others).difference(patterns)
    try:
        covers = tuple(map(Pattern, patterns)) if left else ()
        return all(any(each.covers(other) for each in covers) for other in map(Pattern, left))
    except PatternError:
        return False  # another version of the program took it


class LeftOut(Struct, frozen=True):
    """What limits left out of a page that was read: the number of links by limit, and the depth that the links have."""

    counts: Mapping[Limit, int]
    depth: int

    @classmethod
    def of(cls, outside: Mapping[Outside, int], depth: int, *, cut: Limit | None = None) -> LeftOut:
        """``cut``: the limit that ended the reading of the page, if one did."""
        counts = {LIMIT_OF[reason]: links for reason, links in outside.items() if links}
        if cut is not None:
            counts[cut] = 1
        return cls(counts, depth)


NOTHING_LEFT_OUT = LeftOut({}, 0)
