"""The limits of a crawl that a later run may lift, all in one table: ``LIMITS``.

URLs and pages affected by a limit are stored in rows (``crawler.job.left_out``), and come back when a run lifts the
limit. A run *lifts* a limit if its settings may admit what was left out before. Only a visit to the page with the link,
or a check of the URL, can show whether they do, so in doubt a limit counts as lifted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any

import msgspec.json
from msgspec import Struct

from crawler.base.settings.parts import SCOPES, Settings, TrapSettings
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.boundary import Outside
from crawler.url.scope.patterns import Pattern, PatternError

_WIDTH = {mode: width for width, mode in enumerate(("prefix", "host", "domain", "any"))}
assert set(_WIDTH) == set(SCOPES)


class Limit(StrEnum):
    """A limit, named after its setting."""

    MAX_DEPTH = "crawl.max_depth"
    SCOPE = "crawl.scope"
    INCLUDE = "scope.include"
    EXCLUDE = "scope.exclude"
    MAX_URL_LENGTH = "links.max_url_length"
    MAX_LINKS = "links.max_links"
    MAX_BODY = "fetch.max_body"
    MAX_SITEMAP_BYTES = "links.max_sitemap_bytes"
    HOPS_OUTSIDE = "crawl.hops_outside"  # has no count of its own: its links are counted under the scope
    FILTER = "hooks.filter_link"
    MAX_SEGMENTS = "traps.max_segments"  # traps without records, see ``crawler.frontier.traps``
    MAX_REPEATS = "traps.max_repeats"
    MAX_VARIANTS = "traps.max_variants"
    MAX_QUERY_SHAPES = "traps.max_query_shapes"
    MAX_PORTS = "traps.max_ports"
    MAX_HOSTS = "traps.max_hosts"
    DUPLICATES = "traps.duplicates"
    SOFT404 = "traps.soft404"
    MAX_ID_COPIES = "traps.max_id_copies"


# The number of links that these limits leave out is unknown, so the affected pages are counted.
OF_PAGES = frozenset((Limit.MAX_LINKS, Limit.MAX_BODY, Limit.MAX_SITEMAP_BYTES))
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
    """The stored bytes are not the limits of a run."""


def _raised(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Return True if one of the numbers is higher now, or off (None)."""
    pairs = zip(before, now, strict=True)
    return any(old is not None and (new is None or new > old) for old, new in pairs)


def _eased(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Like ``_raised``, for settings that are turned off by 0 or false."""
    return _raised([old or None for old in before], [new or None for new in now])


def _changed(before: Sequence[Any], now: Sequence[Any]) -> bool:
    return before != now


def _includes(before: Sequence[Any], now: Sequence[Any]) -> bool:
    (old, sites), (new, sites_now) = before, now
    return sites != sites_now or (bool(old) and not (new and _cover(old, new)))


def _excludes(before: Sequence[Any], now: Sequence[Any]) -> bool:
    (old, sites), (new, sites_now) = before, now
    return sites != sites_now or not _cover(new, old)


def _copies(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Return True if fewer pages count as copies whose links are not followed."""
    (old, old_near), (new, new_near) = before, now
    return bool(old == "skip-links" and (new != old or old_near > new_near))


class Line(Struct, frozen=True):
    """One limit. A ``Limit`` leaves out links: its row is a page, which is visited again when the limit is lifted. A
    ``Rule`` refuses URLs: its row is a URL, which is checked again. ``lifts`` compares the values of ``settings`` under
    which a row was written with the current ones, and returns True if the row must be visited or checked again."""

    limit: Limit | Rule
    settings: tuple[str, ...]
    lifts: Callable[[Sequence[Any], Sequence[Any]], bool]


_UPWARD = (Limit.MAX_DEPTH, Limit.MAX_URL_LENGTH, Limit.HOPS_OUTSIDE, *sorted(OF_PAGES - {Limit.MAX_SITEMAP_BYTES}))
_SWITCHES = (
    Limit.MAX_HOSTS,
    Limit.SOFT404,
)
_NETWORKS = "fetch.allow_networks"
_BUDGETS = tuple(rule for rule in Rule if rule.value.startswith("budget."))
_TRAPS = tuple(f"traps.{name}" for name in TrapSettings.__struct_fields__)
LIMITS = (
    *(Line(limit, (limit.value,), _raised) for limit in _UPWARD),
    *(Line(limit, (limit.value,), _eased) for limit in _SWITCHES),
    Line(Limit.SCOPE, ("crawl.scope",), lambda before, now: bool(_WIDTH[now[0]] > _WIDTH[before[0]])),
    Line(Limit.INCLUDE, ("scope.include", "site.patterns"), _includes),
    Line(Limit.EXCLUDE, ("scope.exclude", "site.patterns"), _excludes),
    Line(Limit.FILTER, ("hooks.filter_link",), lambda before, now: before not in ([None], now)),
    Line(Limit.MAX_VARIANTS, ("traps.max_variants",), _eased),
    Line(Limit.DUPLICATES, ("traps.duplicates", "traps.near_duplicates"), _copies),
    Line(Rule.PRIVATE_ADDRESS, ("fetch.allow_private", _NETWORKS), _changed),
    Line(Rule.LINK_LOCAL, (_NETWORKS,), _changed),
    Line(Rule.METADATA_ADDRESS, (_NETWORKS,), _changed),
    Line(Rule.BLOCKED_PORT, ("fetch.allow_ports",), _changed),
    Line(Rule.CONSENT, ("purpose.uses", "purpose.unstated"), _changed),
    *(Line(rule, (*_BUDGETS, "site.budgets"), _changed) for rule in _BUDGETS),
    *(Line(rule, _TRAPS, _changed) for rule in Rule if rule.value.startswith(("traps.", "too-many-"))),
)
_SITES = {"site.patterns": ("include", "exclude"), "site.budgets": ("host_pages", "host_bytes")}
_NAMES = tuple(dict.fromkeys(str(name) for line in LIMITS for name in line.settings))


class Lifted(Struct, frozen=True):
    """The limits that a run lifts."""

    limits: frozenset[Limit] = frozenset()
    rules: frozenset[Rule] = frozenset()


class Bounds(Struct, frozen=True):
    """The limits of one run: the values of all settings that affect a limit, as JSON types."""

    values: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        values = {name: attrgetter(name)(settings) for name in _NAMES if name not in _SITES}
        for name, keys in _SITES.items():
            tables = [(each.match, *(getattr(each, key) for key in keys)) for each in settings.site.tables]
            values[name] = [each for each in tables if each[1:] != (None,) * len(keys)]
        return cls.decode(msgspec.json.encode(values))

    def lifted(self, now: Bounds) -> Lifted:
        """Return the limits that a run with the limits ``now`` lifts."""
        lifted = [
            line.limit
            for line in LIMITS
            if line.lifts([self.values[name] for name in line.settings], [now.values[name] for name in line.settings])
        ]
        limits = frozenset(each for each in lifted if isinstance(each, Limit))
        return Lifted(limits, frozenset(each for each in lifted if isinstance(each, Rule)))

    def encode(self) -> bytes:
        """Encode for storage as JSON."""
        return msgspec.json.encode(self.values)

    @classmethod
    def decode(cls, value: bytes) -> Bounds:
        """Decode stored limits. Raises BoundsError."""
        try:
            values = msgspec.json.decode(value, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BoundsError(f"not the limits of a run: {error}") from error
        if values.keys() != set(_NAMES) or values["crawl.scope"] not in SCOPES:
            raise BoundsError("not the limits of a run: other settings")
        return cls(values)


def _cover(patterns: Sequence[str], others: Sequence[str]) -> bool:
    """Return True if every URL that matches one of ``others`` certainly matches one of the patterns too."""
    left = set(others).difference(patterns)
    try:
        covers = tuple(map(Pattern, patterns)) if left else ()
        return all(any(each.covers(other) for each in covers) for other in map(Pattern, left))
    except PatternError:
        return False  # only another version of the program accepts this pattern


class LeftOut(Struct, frozen=True):
    """The links that limits left out of a page that was read: their number by limit, and their depth."""

    counts: Mapping[Limit, int]
    depth: int

    @classmethod
    def of(cls, outside: Mapping[Outside, int], depth: int, *, cut: Limit | None = None) -> LeftOut:
        """``cut``: the limit that stopped the reading of the page, if any."""
        counts = {LIMIT_OF[reason]: links for reason, links in outside.items() if links}
        if cut is not None:
            counts[cut] = 1
        return cls(counts, depth)


NOTHING_LEFT_OUT = LeftOut({}, 0)
