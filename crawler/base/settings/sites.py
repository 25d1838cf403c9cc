"""The settings of each host: all other settings, overridden by the ``[[site]]`` tables that match it.

The tables are applied in order: if several match a host and set a key, the last one applies. A list is replaced as a
whole.

    numbers        the tables that match a host, by number: two lookups by its name, and one for each domain above it
    HostSettings   the parts of ``Settings`` overridden by these tables; hosts with the same tables share one

Pure: no clock, no files. Results are cached for each host, so that repeated lookups cost one dictionary access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.settings.match import HostMatch, host_match
from crawler.base.settings.parts import (
    BrowserSettings,
    BudgetSettings,
    FetchSettings,
    PolitenessSettings,
    RobotsSettings,
    Settings,
    SiteTable,
)

HOSTS_REMEMBERED = 100_000

# Maps a key of a table to the setting that it overrides: table and key.
OF_HOSTS: dict[str, tuple[str, str]] = {
    "delay": ("politeness", "delay"),
    "per_host": ("politeness", "per_host"),
    "hours": ("politeness", "hours"),
    "time_zone": ("politeness", "time_zone"),
    "headers_timeout": ("fetch", "headers_timeout"),
    "body_timeout": ("fetch", "body_timeout"),
    "ignore_robots": ("robots", "ignore"),
    "host_pages": ("budget", "host_pages"),
    "host_bytes": ("budget", "host_bytes"),
    "browser": ("browser", "when"),
}
WAYS = ("headers", "login", "proxy")  # keys that affect how requests are sent
# Keys that apply to URLs, so that the match may be a pattern.
OF_URLS: dict[str, tuple[str, str]] = {
    "include": ("scope", "include"),
    "exclude": ("scope", "exclude"),
    "min_interval": ("recrawl", "min_interval"),
    "max_interval": ("recrawl", "max_interval"),
}
ONLY_HERE = (
    "rate",
    "group",
    "priority",
    "interval",
    *WAYS,
)  # keys that override no other setting, or more than one
KEYS = frozenset((*OF_HOSTS, *OF_URLS, *ONLY_HERE))
OF_PATHS = frozenset((*OF_URLS, "priority", "interval"))


class Rate(Struct, frozen=True):
    """A limit on requests to all hosts that a table matches."""

    table: int  # number of the table
    seconds: float  # seconds between two requests


class HostSettings(NamedTuple):
    """The settings of one host."""

    politeness: PolitenessSettings
    fetch: FetchSettings
    budget: BudgetSettings
    robots: RobotsSettings
    browser: BrowserSettings
    rate: Rate | None = None
    group: str | None = None


class Stated(Struct, frozen=True):
    """A value that a table sets, and the table's number."""

    value: Any
    table: int


def stated_in(tables: Iterable[tuple[int, SiteTable]], keys: Iterable[str]) -> dict[str, Stated]:
    """Return the values that the tables set for these keys; later tables override earlier tables."""
    found: dict[str, Stated] = {}
    wanted = tuple(keys)
    for number, table in tables:
        for key in wanted:
            value = getattr(table, key)
            if value is not None:
                found[key] = Stated(value, number)
    return found


class HostIndex:
    """Finds the tables that match a host. Tables whose match is a URL pattern are ignored."""

    def __init__(self, tables: Iterable[tuple[int, SiteTable]]) -> None:
        self._exact: dict[str, list[tuple[int, HostMatch]]] = {}
        self._below: dict[str, list[tuple[int, HostMatch]]] = {}
        for number, table in tables:
            match = host_match(table.match)
            if match is not None:
                names = self._below if match.below else self._exact
                names.setdefault(match.name, []).append((number, match))

    def __bool__(self) -> bool:
        return bool(self._exact or self._below)

    def numbers(self, scheme: str | None, name: str, port: str) -> tuple[int, ...]:
        """Return the numbers of the tables that match a host, in order.

        ``port`` is never empty; ``scheme`` is None if unknown.
        """
        found = [number for number, match in self._exact.get(name, ()) if match.fits(scheme, port)]
        if self._below:
            domain = name
            while domain:
                found += [number for number, match in self._below.get(domain, ()) if match.fits(scheme, port)]
                domain = domain.partition(".")[2]
        return tuple(sorted(found))


class Sites:
    """The settings of each host."""

    def __init__(self, settings: Settings, remembered: int = HOSTS_REMEMBERED) -> None:
        self.settings = settings
        self._tables = settings.site.tables
        self._index = HostIndex(enumerate(self._tables))
        self._most = remembered
        self._plain = HostSettings(
            settings.politeness, settings.fetch, settings.budget, settings.robots, settings.browser
        )
        self._hosts: dict[str, HostSettings] = {}
        self._sets: dict[tuple[int, ...], HostSettings] = {(): self._plain}

    def __bool__(self) -> bool:
        """Return True if any host may have its own settings."""
        return bool(self._index)

    @property
    def bound(self) -> bool:
        """True if any table has a budget."""
        return any(self._of((number,)).budget != self._plain.budget for number in range(len(self._tables)))

    @property
    def rendered(self) -> bool:
        """True if pages of any host are to be rendered."""
        each = (self._of((number,)) for number in range(len(self._tables)))
        return any(host.browser.when != "never" for host in (self._plain, *each))

    @property
    def timed(self) -> bool:
        """True if any table has windows of time."""
        return any(table.hours for table in self._tables)

    @property
    def grouped(self) -> bool:
        """True if any table names a group of hosts."""
        return any(table.group for table in self._tables)

    def of_host(self, name: str) -> HostSettings:
        """Return the settings of a host, named with its port as in ``example.org:443``."""
        found = self._hosts.get(name)
        if found is None:
            if len(self._hosts) >= self._most:
                self._hosts.clear()
            host, _, port = name.rpartition(":")
            found = self._hosts[name] = self._of(self._index.numbers(None, host, port))
        return found

    def politeness(self, name: str) -> PolitenessSettings:
        """Return the politeness settings of a host."""
        return self.of_host(name).politeness

    def of_origin(self, scheme: str, host: str, port: str) -> HostSettings:
        """Return the settings of requests to an origin, which are not cached; ``port`` is never empty."""
        return self._of(self._index.numbers(scheme, host, port))

    def stated(self, name: str, keys: Iterable[str] = KEYS) -> dict[str, Stated]:
        """Return the values that the tables set for a host, named with its port."""
        host, _, port = name.rpartition(":")
        return self._stated(self._index.numbers(None, host, port), keys)

    def way_of(self, scheme: str, host: str, port: str) -> dict[str, Stated]:
        """Return the settings for sending requests to an origin; ``port`` is never empty."""
        return self._stated(self._index.numbers(scheme, host, port), WAYS)

    def every(self, read: Callable[[HostSettings], float]) -> float:
        """Return the largest number that ``read`` returns for the settings of any host."""
        each = (self._of((number,)) for number in range(len(self._tables)))
        return max((read(self._plain), *map(read, each)))

    def _stated(self, numbers: tuple[int, ...], keys: Iterable[str]) -> dict[str, Stated]:
        return stated_in(((number, self._tables[number]) for number in numbers), keys)

    def _of(self, numbers: tuple[int, ...]) -> HostSettings:
        found = self._sets.get(numbers)
        if found is None:
            found = self._sets[numbers] = self._laid_over(numbers)
        return found

    def _laid_over(self, numbers: tuple[int, ...]) -> HostSettings:
        changed: dict[str, dict[str, Any]] = {}
        stated = self._stated(numbers, (*OF_HOSTS, "rate", "group"))
        for key, (part, field) in OF_HOSTS.items():
            if key in stated:
                changed.setdefault(part, {})[field] = stated[key].value
        rate = stated.get("rate")
        parts = {part: replace(getattr(self._plain, part), **fields) for part, fields in changed.items()}
        limit = None if rate is None else Rate(rate.table, 1.0 / rate.value)
        group = stated["group"].value if "group" in stated else None
        return self._plain._replace(rate=limit, group=group, **parts)
