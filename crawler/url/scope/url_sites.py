"""The settings that apply to one URL: the ``[[site]]`` tables whose host or pattern it matches.

As for hosts (``crawler.base.settings.sites``), if several matching tables have a key, the last one counts. A table that
matches a host applies to all URLs of that host. Only tables with a key for URLs are considered, and host matches are
cached.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.settings.match import host_match
from crawler.base.settings.parts import RecrawlSettings, Settings, SiteTable
from crawler.base.settings.sites import OF_PATHS, HostIndex, stated_in
from crawler.url.scope.patterns import Pattern, parts
from crawler.url.urls.host_key import PORTS, split_origin

ORIGINS_REMEMBERED = 100_000
_Numbers = tuple[int, ...]


class UrlSettings(Struct, frozen=True):
    """The tables' values for a URL; None where they have none. ``places``: the number of the table that set each
    key."""

    include: tuple[Pattern, ...] | None
    exclude: tuple[Pattern, ...] | None
    priority: int | None
    recrawl: RecrawlSettings | None
    places: dict[str, int]


class UrlSites:
    """The settings of each URL. Raises PatternError for a pattern that no URL can match."""

    def __init__(self, settings: Settings, remembered: int = ORIGINS_REMEMBERED) -> None:
        self._tables = [
            (number, table)
            for number, table in enumerate(settings.site.tables)
            if any(getattr(table, key) is not None for key in OF_PATHS)
        ]
        self._by_number = dict(self._tables)
        self._index = HostIndex(self._tables)
        self._patterns = [
            (number, Pattern(table.match)) for number, table in self._tables if host_match(table.match) is None
        ]
        self._recrawl = settings.recrawl
        self._most = remembered
        self._origins: dict[str, _Numbers] = {}
        self._sets: dict[_Numbers, UrlSettings] = {}
        for number, _ in self._tables:
            self._of((number,))  # parse all patterns now

    @classmethod
    def of_settings(cls, settings: Settings) -> UrlSites | None:
        """Return the settings of each URL, or None if no table has a key for URLs."""
        sites = cls(settings) if settings.site.tables else None
        return sites or None

    def __bool__(self) -> bool:
        return bool(self._tables)

    def of_url(self, href: str) -> UrlSettings:
        """Return the settings of a canonical URL."""
        end = href.find("/", 8)
        numbers = self._origins.get(href[:end])
        if numbers is None:
            numbers = self._find(href, end)
        if self._patterns:
            url, path = parts(href)
            matching = tuple(number for number, pattern in self._patterns if pattern.match_parts(url, path))
            if matching:
                numbers = tuple(sorted(numbers + matching))
        return self._of(numbers)

    def recrawl_of(self, href: str) -> RecrawlSettings:
        """Return the recrawl settings of a URL."""
        return self.of_url(href).recrawl or self._recrawl

    def _find(self, href: str, end: int) -> _Numbers:
        if len(self._origins) >= self._most:
            self._origins.clear()
        scheme, host, port, _ = split_origin(href)
        numbers = self._index.numbers(scheme, host, port or str(PORTS[scheme]))
        self._origins[href[:end]] = numbers
        return numbers

    def _of(self, numbers: _Numbers) -> UrlSettings:
        found = self._sets.get(numbers)
        if found is None:
            tables = [(number, self._by_number[number]) for number in numbers]
            found = self._sets[numbers] = _laid_over(self._recrawl, tables)
        return found


def _laid_over(recrawl: RecrawlSettings, tables: list[tuple[int, SiteTable]]) -> UrlSettings:
    stated = stated_in(tables, OF_PATHS)
    places = {key: one.table for key, one in stated.items()}
    values = {key: one.value for key, one in stated.items()}
    include, exclude = values.get("include"), values.get("exclude")
    times = {key: values[key] for key in ("min_interval", "max_interval") if key in values}
    fixed = stated.get("interval")
    if fixed is not None and all(fixed.table >= stated[key].table for key in times):
        times = dict.fromkeys(("min_interval", "max_interval"), fixed.value)
    own = replace(recrawl, **times) if times else None
    if own is not None:
        own = _in_order(own)
    return UrlSettings(
        None if include is None else tuple(map(Pattern, include)),
        None if exclude is None else tuple(map(Pattern, exclude)),
        values.get("priority"),
        own,
        places,
    )


def _in_order(times: RecrawlSettings) -> RecrawlSettings:
    """Lower the minimum interval to the maximum if separate tables set them in the wrong order."""
    return replace(times, min_interval=min(times.min_interval, times.max_interval))


def site_patterns(table: SiteTable) -> list[tuple[tuple[str | int, ...], str]]:
    """Return the patterns of a table, each with its place: its key and, if that key is a list, its number."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    if host_match(table.match) is None:
        found.append((("match",), table.match))
    for key in ("include", "exclude"):
        found += [((key, number), text) for number, text in enumerate(getattr(table, key) or ())]
    return found
