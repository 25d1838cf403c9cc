"""From the tables of a TOML file to ``Settings``: every key known, every value of its type and inside its bounds.

Reading the file is the edge's work: ``settings_from`` takes what ``tomllib`` parsed. It raises ``SettingsError`` with
one line that names the key, and the nearest known key when one was misspelt.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from crawler.base.settings.hours import HoursError, hours_of
from crawler.base.settings.leaving import (
    fault_of_header,
    fault_of_header_name,
    fault_of_origin,
    fault_of_proxy,
    fault_of_reference,
    fault_of_status,
    fault_of_type,
    fault_of_webhook,
    is_secret,
)
from crawler.base.settings.match import fault_of_match, host_match
from crawler.base.settings.parts import (
    CLASSES,
    DUPLICATES,
    EMBEDDED,
    HEADERS_MOST,
    HOPS_MOST,
    HOST_KEYS,
    KEPT,
    LEDGER_KINDS,
    LINK_KINDS,
    NOTICES,
    ON_ERRORS,
    ON_PAGE_IN,
    ORDERS,
    OUTPUT_FIELDS,
    PARTITIONS_MOST,
    PLACED_BY,
    RECRAWL_COMPARES,
    RECRAWL_POLICIES,
    RETRY_CLASSES,
    SCOPES,
    SEEN_HASHES,
    SEEN_KINDS,
    SEEN_LAYOUTS,
    TABLES,
    TEXT_FORMS,
    PriorityRule,
    Settings,
    SitesSettings,
    SiteTable,
)
from crawler.base.settings.sites import OF_HOSTS, OF_PATHS, OF_URLS, WAYS
from crawler.base.settings.timetable import fault_of_time

Tables = Mapping[str, Mapping[str, Any]]
RULES = "priority"
SITE = "site"
LISTED = {RULES: "rules", SITE: "tables"}  # the tables that TOML may hold several times, and the field for the list
_OLD_PLACE = ("fetch", "site")
_OLD_SITE = ".".join(_OLD_PLACE)  # what [[site]] was called before; it was about one origin only


class SettingsError(ValueError):
    """A setting that cannot be used; the text is one line for the user."""


class Source:
    """The origin of settings for messages: one text for all of them, unless a subclass is more precise."""

    def __init__(self, text: str) -> None:
        self._text = text

    def at(self, *place: str | int) -> str:
        """The origin of a table, of a key in it (the second word), of an element of its list (a number), ..."""
        return self._text


_POSITIVE = frozenset(
    {
        ("crawl", "concurrency"),
        ("crawl", "max_pages"),
        ("crawl", "max_time"),
        ("politeness", "per_host"),
        ("politeness", "rate"),
        ("politeness", "address_delay"),
        ("fetch", "connect_timeout"),
        ("fetch", "headers_timeout"),
        ("fetch", "body_timeout"),
        ("fetch", "idle_timeout"),
        ("fetch", "max_body"),
        ("fetch", "body_memory"),
        ("fetch", "max_headers"),
        ("politeness", "slow_share"),
        ("politeness", "session_pages"),
        ("retry", "tries"),
        ("retry", "throttled_tries"),
        *(("retry", f"{fault}_tries") for fault in RETRY_CLASSES),
        ("budget", "host_pages"),
        ("budget", "host_bytes"),
        ("budget", "host_seconds"),
        ("budget", "domain_pages"),
        ("budget", "domain_bytes"),
        ("budget", "domain_seconds"),
        ("robots", "max_bytes"),
        ("robots", "ttl"),
        ("robots", "unreachable_ttl"),
        ("robots", "cache_bytes"),
        ("seen", "capacity"),
        ("links", "max_url_length"),
        ("links", "max_links"),
        ("links", "max_sitemap_bytes"),
        ("traps", "max_records"),
        ("durability", "sync_interval"),
        ("durability", "checkpoint_interval"),
        ("recrawl", "first_interval"),
        ("recrawl", "mean_interval"),
        ("recrawl", "min_interval"),
        ("recrawl", "max_interval"),
        ("output", "file_size"),
        ("output", "text_seconds"),
        ("dashboard", "interval"),
        ("partitions", "processes"),
        ("partitions", "count"),
        ("partitions", "workers"),
        ("partitions", "copy_rate"),
        ("schedule", "every_hours"),
        (SITE, "rate"),
        (SITE, "interval"),
    }
)
_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("crawl", "scope"): SCOPES,
    ("politeness", "host_key"): HOST_KEYS,
    ("crawl", "order"): ORDERS,
    ("partitions", "placed_by"): PLACED_BY,
    ("seen", "kind"): SEEN_KINDS,
    ("seen", "hash"): SEEN_HASHES,
    ("seen", "layout"): SEEN_LAYOUTS,
    ("links", "kinds"): LINK_KINDS,
    ("links", "embedded"): EMBEDDED,
    ("traps", "duplicates"): DUPLICATES,
    ("recrawl", "policy"): RECRAWL_POLICIES,
    ("output", "fields"): OUTPUT_FIELDS,
    ("recrawl", "compare"): RECRAWL_COMPARES,
    ("output", "keep"): KEPT,
    ("output", "text_form"): TEXT_FORMS,
    ("hooks", "on_page_in"): ON_PAGE_IN,
    ("hooks", "on_error"): ON_ERRORS,
    ("notify", "events"): NOTICES,
}
_NUMBERS = {  # lists of whole numbers: what they are, the least, the most
    ("retry", "lasting_statuses"): ("statuses", 500, 599),
    ("fetch", "allow_ports"): ("ports", 0, 65_535),
}
_LEAST: dict[tuple[str, str], float] = {
    ("durability", "generations"): 2,
    ("retry", "growth"): 1.0,
    ("links", "max_url_length"): 16,  # hardly any URL is shorter
}
# A larger value is a typing error. Where a bound follows from a stored format or a computation, a comment says how.
_MOST_WHOLE = 2**53
_MOST_SECONDS = 1e9
_MOST: dict[tuple[str, str], float] = {
    ("output", "text_processes"): 1_024,
    ("hooks", "on_page_workers"): 1_024,
    ("crawl", "concurrency"): 2**16,  # as many as a machine has ports
    ("crawl", "max_depth"): 2**32 - 2,  # stored in four bytes, and links one level deeper are examined
    ("crawl", "hops_outside"): HOPS_MOST,
    ("partitions", "processes"): PARTITIONS_MOST,
    ("partitions", "count"): PARTITIONS_MOST,
    ("partitions", "replicas"): 3,
    ("schedule", "every_hours"): 24 * 3_660,  # ten years: no calendar ends before
    ("politeness", "per_host"): 2**16,
    ("politeness", "adaptive"): 1_000,
    ("politeness", "jitter"): 1,
    ("politeness", "snooze_after"): 255,  # counted in one byte, like the next two
    ("politeness", "retire_after"): 255,
    ("politeness", "retire_throttled"): 255,
    ("politeness", "slow_share"): 1,
    ("fetch", "max_redirects"): 255,  # counted in one byte
    ("fetch", "max_body"): 2**32,
    ("output", "store_max_size"): 2**32,
    ("fetch", "max_headers"): 2**24,  # the parser of one answer holds them all
    ("retry", "tries"): 255,  # counted in one byte
    ("retry", "throttled_tries"): 255,
    **{("retry", f"{fault}_tries"): 255 for fault in RETRY_CLASSES},
    ("retry", "jitter"): 1,
    ("retry", "growth"): 1_000,  # its 64th power is still finite
    ("robots", "max_bytes"): 2**32,
    ("recrawl", "share"): 1,
    ("recrawl", "gone_after"): 255,  # counted in one byte
    ("recrawl", "increase"): 100,
    ("recrawl", "decrease"): 0.9,
    ("seen", "capacity"): 2**40,
    ("durability", "generations"): 1_000,
    ("hooks", "relevant_score"): 1,
    (RULES, "class"): CLASSES - 1,
    (SITE, "priority"): CLASSES - 1,
    (RULES, "min_depth"): 2**32 - 2,
    (RULES, "max_depth"): 2**32 - 2,
    (RULES, "min_sitemap_priority"): 1,
    (RULES, "max_sitemap_priority"): 1,
}
# (table, the less, the more, which of them gives way as long as it has its default).
_ORDERED: tuple[tuple[str, str, str, str | None], ...] = (
    ("recrawl", "min_interval", "max_interval", None),
    ("recrawl", "first_interval", "max_interval", "first_interval"),
    ("recrawl", "min_interval", "first_interval", "first_interval"),
    ("recrawl", "mean_interval", "max_interval", "mean_interval"),
    ("recrawl", "min_interval", "mean_interval", "mean_interval"),
    ("politeness", "adaptive_min", "adaptive_max", None),
    ("politeness", "backoff_first", "backoff_max", None),
    ("politeness", "snooze_first", "snooze_max", None),
    ("retry", "first_wait", "max_wait", "first_wait"),
    *(("retry", f"{fault}_wait", "max_wait", None) for fault in RETRY_CLASSES if fault != "throttled"),
)
_FAULTS: dict[tuple[str, str], Callable[[str], str | None]] = {
    ("fetch", "proxy"): fault_of_proxy,
    ("fetch", "proxy_login"): fault_of_reference,
    ("output", "headers"): fault_of_header_name,
    ("output", "store_types"): fault_of_type,
    ("output", "store_statuses"): fault_of_status,
    ("hooks", "on_page_types"): fault_of_type,
    ("hooks", "on_page_statuses"): fault_of_status,
    ("notify", "url"): fault_of_webhook,
    ("schedule", "times"): fault_of_time,
    (SITE, "match"): fault_of_match,
    (SITE, "headers"): fault_of_header,
    (SITE, "login"): fault_of_reference,
    (SITE, "proxy"): fault_of_proxy,
}
# A key of [[site]] has the bounds of the setting that it replaces.
_SAME_BOUNDS = {(SITE, key): place for key, place in (OF_HOSTS | OF_URLS).items()}
_HOURS = frozenset((table, key) for table in ("politeness", "schedule") for key in ("hours", "time_zone"))
AT_ONCE = 1.0  # seconds between two visits of a page, where a schedule says when they are
_TEXT_LINES = frozenset({("fetch", "user_agent"), ("fetch", "contact")})


def nearest(word: str, known: typing.Iterable[str]) -> str:
    """A hint in brackets for a misspelt word; empty if no known word is near."""
    import difflib  # noqa: PLC0415, only for a wrong name

    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def has_key(table: str, key: str) -> bool:
    """Whether ``key`` is a setting of a table."""
    return key in {name.rstrip("_") for name in TABLES[table].__struct_fields__}


def check_tables(tables: Mapping[str, Any], source: str | Source) -> None:
    """Raises SettingsError for an unknown table, or a value that is not a table."""
    source = _as_source(source)
    for table, values in tables.items():
        if table not in TABLES:
            if not isinstance(values, Mapping | list) and (inside := [name for name in TABLES if has_key(name, table)]):
                belongs = " or ".join(f"[{name}]" for name in inside)
                raise SettingsError(f"{source.at(table)}: {table} stands outside of a table: it belongs into {belongs}")
            raise SettingsError(f"{source.at(table)}: unknown table [{table}]{nearest(table, TABLES)}")
        if table in LISTED and isinstance(values, list):
            for number, rule in enumerate(values):
                if not isinstance(rule, Mapping):
                    raise SettingsError(f"{source.at(table, number)}: each [[{table}]] must be a table of keys")
        elif not isinstance(values, Mapping):
            raise SettingsError(f"{source.at(table)}: [{table}] must be a table of keys")


def one_table_each(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Checked tables, in which what is a list of tables in TOML has a key of its own."""
    return {
        table: {LISTED[table]: values} if table in LISTED and isinstance(values, list) else dict(values)
        for table, values in tables.items()
    }


@functools.cache
def _hints(kind: Callable[..., object]) -> Mapping[str, Any]:
    """The type of each key of a table. Finding out takes a millisecond, and a file may have many tables of a kind."""
    return {name.rstrip("_"): hint for name, hint in typing.get_type_hints(kind).items()}


def _as_source(source: str | Source) -> Source:
    return Source(source) if isinstance(source, str) else source


def settings_from(tables: Tables, source: str | Source = "configuration") -> Settings:
    """The settings with the given tables laid over the defaults. ``source`` names their origin in a message.

    Raises SettingsError: an unknown table or key, a value of the wrong type or outside its range."""
    source = _as_source(source)
    check_tables(tables, source)
    tables = one_table_each(tables)
    old = _old_sites(tables.get("fetch", {}).pop("site", ()), source)
    built: dict[str, Any] = {}
    for table, values in tables.items():
        kind = typing.cast("type[Any]", TABLES[table])
        hints = _hints(typing.cast("Callable[..., object]", kind))
        checked: dict[str, Any] = {}
        for key, value in values.items():
            if key not in hints and table in LISTED:
                each = "site" if table == SITE else "rule"
                raise SettingsError(f"{source.at(table)}: write each {each} as a table of its own, [[{table}]]")
            if key not in hints:
                raise SettingsError(f"{source.at(table, key)}: unknown key {table}.{key}{nearest(key, hints)}")
            checked[key] = _checked(table, key, value, hints[key], source)
        built[table] = kind(**checked)
    settings = Settings(**built, places=_places(tables, len(old), source))
    if old:
        settings = replace(settings, site=SitesSettings(old + settings.site.tables))
    _check_together(settings, tables.get("seen", {}), source)
    _check_order(settings, tables, source)
    return _with_rounds(settings)


def _with_rounds(settings: Settings) -> Settings:
    """A schedule with rounds visits every page again. Unless revisits are set up, a page may be visited again at once:
    the schedule alone says when."""
    if not settings.schedule.has_rounds or settings.recrawl.enabled:
        return settings
    at_once = replace(
        settings.recrawl,
        enabled=True,
        policy="adaptive",
        mean_interval=AT_ONCE,
        first_interval=AT_ONCE,
        min_interval=AT_ONCE,
        max_interval=AT_ONCE,
    )
    return replace(settings, recrawl=at_once)


def _places(tables: Tables, old: int, source: Source) -> dict[tuple[str | int, ...], str]:
    """Where each value comes from. ``old``: tables of sites that stand before those of ``tables``."""
    places: dict[tuple[str | int, ...], str] = {}
    for table, values in tables.items():
        if table not in LISTED:
            places.update(((table, key), source.at(table, key)) for key in values)
    for number, site in enumerate(tables.get(SITE, {}).get(LISTED[SITE], ())):
        if isinstance(site, Mapping):
            places.update(((SITE, old + number, key), source.at(SITE, number, key)) for key in site)
    places.update(
        ((SITE, number, key), source.at("fetch", "site", number, key)) for number in range(old) for key in WAYS
    )
    places.update(((*_OLD_PLACE, number), source.at(*_OLD_PLACE, number)) for number in range(old))
    return places


def outdated(settings: Settings) -> Iterator[str]:
    """What is still read and should be written in another way: a line for the user."""
    place = settings.places.get((*_OLD_PLACE, 0))
    if place is not None:
        yield f"{place}: [[{_OLD_SITE}]] is deprecated: write [[{SITE}]], with match instead of origin"


def _checked(table: str, key: str, value: Any, hint: Any, source: Source) -> Any:
    name = f"{source.at(table, key)}: {table}.{key}"
    kinds = [kind for kind in typing.get_args(hint) or (hint,) if kind is not types.NoneType]
    if hint == tuple[PriorityRule, ...]:
        if not isinstance(value, (list, tuple)):
            raise SettingsError(f"{source.at(table)}: write each rule as a table of its own, [[{table}]]")
        return tuple(_rule(table, number, rule, source) for number, rule in enumerate(value))
    if hint == tuple[SiteTable, ...]:
        if not isinstance(value, (list, tuple)):
            raise SettingsError(f"{source.at(table)}: write each site as a table of its own, [[{table}]]")
        return tuple(_site(table, number, site, source) for number, site in enumerate(value))
    if hint == tuple[int, ...]:
        word, least, most = _NUMBERS[table, key]
        whole = isinstance(value, (list, tuple)) and all(type(item) is int for item in value)
        if not whole or not all(least <= item <= most for item in value):
            raise SettingsError(f"{name} must be a list of {word} from {least} to {most}, not {_shown(value)}")
        if (table, key) == ("retry", "lasting_statuses") and 503 in value:
            raise SettingsError(f"{name}: 503 is always temporary: leave it out")
        return tuple(value)
    if value is None and types.NoneType in typing.get_args(hint):
        return None
    if hint == tuple[str, ...] or hint == tuple[str, ...] | None:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{name} must be a list of strings, not {_shown(value)}")
        value = tuple(value)
        kinds = [tuple]
    kind = kinds[0]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        # Far beyond any bound, and a float still holds it.
        value = float(max(-(2**1000), min(value, 2**1000)))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
        raise SettingsError(f"{name} must be {words[kind]}, not {_shown(value)}")
    place = (table, key)
    if place in _CHOICES:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in _CHOICES[place]:
                known = ", ".join(_CHOICES[place])
                raise SettingsError(f"{name}: unknown {item!r}{nearest(item, _CHOICES[place])}; known: {known}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(place, name, value)
    if place == ("fetch", "allow_networks"):
        _check_networks(name, value)
    _check_access(place, name, value)
    if _SAME_BOUNDS.get(place, place) in _HOURS and value is not None:
        _check_hours(name, value)
    if place in _TEXT_LINES and not (str(value).isprintable() and str(value).isascii()):
        raise SettingsError(f"{name} must be one line of printable ASCII, not {value!r}: it is sent as a header")
    return value


def _check_access(place: tuple[str, str], name: str, value: Any) -> None:
    fault_of = _FAULTS.get(place)
    if fault_of is None or value is None:
        return
    for item in value if isinstance(value, tuple) else (value,):
        fault = fault_of(item)
        if fault is not None:
            raise SettingsError(f"{name} {fault}")


def _check_hours(name: str, value: str | tuple[str, ...]) -> None:
    try:
        hours_of((), value) if isinstance(value, str) else hours_of(value, None)
    except HoursError as error:
        raise SettingsError(f"{name} {error}") from None


def _check_networks(name: str, networks: tuple[str, ...]) -> None:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise SettingsError(f"{name}: {_shown(network)} is no network{_network_hint(network)}") from None


def _network_hint(text: str) -> str:
    """A hint for a network whose address has bits behind the prefix, as in 10.0.0.1/8."""
    try:
        return f": did you mean {ipaddress.ip_network(text, strict=False)}?"
    except ValueError:
        return ": write an address or a prefix, as in 192.168.1.7, 10.0.0.0/8 or fd12:3456::/32"


def _rule(table: str, number: int, stated: Any, source: Source) -> PriorityRule:
    if isinstance(stated, PriorityRule):
        return stated
    name = f"{source.at(table, number)}: {table} rule {number + 1}"
    if not isinstance(stated, Mapping):
        raise SettingsError(f"{name} must be a table of keys")
    hints = _hints(PriorityRule)
    checked: dict[str, Any] = {}
    for key, value in stated.items():
        if key not in hints:
            raise SettingsError(f"{source.at(table, number, key)}: unknown key {table}.{key}{nearest(key, hints)}")
        of_rule = _Nested(source, (table, number))
        checked[key] = _checked(table, key, value, hints[key], of_rule)
    if "class" not in checked:
        raise SettingsError(f"{name} has no class: add class = 0 (goes first) to {CLASSES - 1}")
    return PriorityRule(class_=checked.pop("class"), **checked)


def _site(table: str, number: int, stated: Any, source: Source) -> SiteTable:
    if isinstance(stated, SiteTable):
        return stated
    if not isinstance(stated, Mapping):
        raise SettingsError(f"{source.at(table, number)}: {table} {number + 1} must be a table of keys")
    hints = _hints(SiteTable)
    checked: dict[str, Any] = {}
    of_site = _Nested(source, (table, number))
    for key, value in stated.items():
        if key not in hints:
            raise SettingsError(f"{of_site.at(table, key)}: unknown key {table}.{key}{nearest(key, hints)}")
        checked[key] = _checked(table, key, value, hints[key], of_site)
    if "match" not in checked:
        place = source.at(table, number)
        raise SettingsError(f'{place}: {table} {number + 1} has no match: add one, as in match = "example.org"')
    site = SiteTable(**checked)
    _check_site(site, of_site)
    return site


def _check_site(site: SiteTable, source: Source) -> None:
    """Refuse keys that cannot belong to what the table matches, and secrets that would leave unencrypted."""
    match = host_match(site.match)
    for key in site.__struct_fields__:
        value = getattr(site, key)
        if value is None or key == "match":
            continue
        name = f"{source.at(SITE, key)}: {SITE}.{key}"
        if match is None and key not in OF_PATHS:
            bare = site.match.removesuffix("/")
            instead = bare if host_match(bare) is not None else "example.org"
            raise SettingsError(
                f"{name} belongs to a host, and match = {site.match!r} is a pattern of URLs: write it in a table of "
                f'its own, as in match = "{instead}"'
            )
        secret = key == "login" or (key == "headers" and any(map(is_secret, value)))
        if secret and match is not None and match.scheme is None:
            raise SettingsError(
                f"{name} is a secret: write the scheme too, as in match = {f'https://{site.match}'!r}, so that it "
                "does not leave without encryption by mistake"
            )
    if site.group is not None and not site.group.strip():
        raise SettingsError(f"{source.at(SITE, 'group')}: {SITE}.group must be a name")
    for less, more in (("min_interval", "max_interval"), ("first_interval", "max_interval")):
        low, high = getattr(site, less), getattr(site, more)
        if low is not None and high is not None and low > high:
            raise SettingsError(
                f"{source.at(SITE, less)}: {SITE}.{less} ({low:g}) is larger than {SITE}.{more} ({high:g})"
            )
    if site.interval is not None and (site.min_interval or site.max_interval or site.first_interval):
        raise SettingsError(
            f"{source.at(SITE, 'interval')}: {SITE}.interval is the time between any two visits: leave out the other "
            "intervals"
        )


def _old_sites(stated: Any, source: Source) -> tuple[SiteTable, ...]:
    """What earlier versions called [[fetch.site]], as the tables that it means. They come before all others."""
    if not isinstance(stated, (list, tuple)):
        raise SettingsError(f"{source.at('fetch', 'site')}: write each site as a table of its own, [[{_OLD_SITE}]]")
    found = []
    for number, site in enumerate(stated):
        place = _Nested(source, ("fetch", "site", number))
        if not isinstance(site, Mapping):
            raise SettingsError(f"{place.at()}: {_OLD_SITE} {number + 1} must be a table of keys")
        known = ("origin", "headers", "login", "proxy")
        unknown = next((key for key in site if key not in known), None)
        if unknown is not None:
            at = place.at("", unknown)
            hint = nearest(unknown, known)
            if not hint and unknown in _hints(SiteTable):
                hint = f": write [[{SITE}]], with match instead of origin"
            raise SettingsError(f"{at}: unknown key {_OLD_SITE}.{unknown}{hint}")
        origin = site.get("origin")
        if origin is None:
            raise SettingsError(
                f'{place.at()}: {_OLD_SITE} {number + 1} has no origin: add one, as in origin = "https://example.org"'
            )
        fault = fault_of_origin(origin) if isinstance(origin, str) else "must be a string"
        if fault is not None:
            raise SettingsError(f"{place.at('', 'origin')}: {_OLD_SITE}.origin {fault}")
        hints = _hints(SiteTable)
        ways = {key: _checked(SITE, key, site[key], hints[key], place) for key in known[1:] if key in site}
        found.append(SiteTable(origin, **ways))
    return tuple(found)


class _Nested(Source):
    """A source for the elements of a list of tables."""

    def __init__(self, source: Source, place: tuple[str | int, ...]) -> None:
        self._source = source
        self._place = place

    def at(self, *place: str | int) -> str:
        return self._source.at(*self._place, *place[1:])


def _check_number(place: tuple[str, str], name: str, value: float) -> None:
    place = _SAME_BOUNDS.get(place, place)
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{name} must be finite, not {value}")
    if value <= 0 and place in _POSITIVE:
        raise SettingsError(f"{name} must be above 0, not {_shown(value)}")
    if value < _LEAST.get(place, 0):
        raise SettingsError(f"{name} must be at least {_LEAST.get(place, 0)}, not {_shown(value)}")
    if place in (("seen", "fpp"), ("seen", "tightening")) and not 0 < value < 1:
        raise SettingsError(f"{name} must be between 0 and 1, both excluded, not {_shown(value)}")
    if place == ("seen", "compact_slices") and value == 1:
        raise SettingsError(f"{name} must be 0 (never) or at least 2, not 1: the result is one slice")
    if place == ("seen", "growth") and not 1 <= value <= 16:
        raise SettingsError(f"{name} must be between 1 and 16, not {_shown(value)}")
    most = _MOST.get(place, _MOST_WHOLE if isinstance(value, int) else _MOST_SECONDS)
    if value > most:
        raise SettingsError(f"{name} must be at most {most:,.0f}, not {_shown(value)}")


def _shown(value: Any) -> str:
    """The value on one line, shortened if it is long."""
    if isinstance(value, int) and abs(value) > 10**30:
        # Python refuses to write out a number of thousands of digits.
        return "a number of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _check_together(settings: Settings, asked_for: Mapping[str, Any], source: Source) -> None:
    """``asked_for``: what was given for the seen-set."""
    if settings.schedule.every_hours is not None and settings.schedule.times:
        place = source.at("schedule", "times")
        raise SettingsError(f"{place}: schedule.times and schedule.every_hours both say when a round begins: keep one")
    if len(settings.output.headers) > HEADERS_MOST:
        place = source.at("output", "headers")
        raise SettingsError(f"{place}: output.headers names more than {HEADERS_MOST} headers")
    if asked_for.get("ledger") and settings.seen.kind not in LEDGER_KINDS:
        raise SettingsError(
            f"{source.at('seen', 'ledger')}: seen.ledger works with the kinds {', '.join(LEDGER_KINDS)}, not "
            f"with {settings.seen.kind}: leave one out"
        )
    if settings.seen.kind == "exact" and settings.seen.hash != "blake2b":
        raise SettingsError(
            f"{source.at('seen', 'hash')}: seen.kind exact promises that no URL is mistaken for another, and the hash "
            f"{settings.seen.hash} cannot: leave one out"
        )
    if settings.traps.near_duplicates and settings.traps.duplicates == "off":
        raise SettingsError(
            f'{source.at("traps", "near_duplicates")}: traps.near_duplicates needs traps.duplicates, which is "off"'
        )
    if not settings.fetch.user_agent.strip():
        raise SettingsError(f"{source.at('fetch', 'user_agent')}: fetch.user_agent must not be empty")
    for number, site in enumerate(settings.site.tables):
        if site.per_host is not None and site.per_host > settings.crawl.concurrency:
            place = settings.places.get((SITE, number, "per_host"), source.at(SITE))
            raise SettingsError(
                f"{place}: {SITE}.per_host ({site.per_host}) is larger than "
                f"crawl.concurrency ({settings.crawl.concurrency}): the rest could never be used"
            )
    if settings.politeness.per_host > settings.crawl.concurrency:
        raise SettingsError(
            f"{source.at('politeness', 'per_host')}: politeness.per_host ({settings.politeness.per_host}) is larger "
            f"than crawl.concurrency ({settings.crawl.concurrency}): the rest could never be used"
        )


def _check_order(settings: Settings, stated: Tables, source: Source) -> None:
    for table, low, high, gives_way in _ORDERED:
        part = getattr(settings, table)
        less, more = getattr(part, low), getattr(part, high)
        if less is None or less <= more:
            continue
        if gives_way is not None and getattr(part, gives_way) == getattr(type(part)(), gives_way):
            continue
        place = next((key for key in (low, high) if key in stated.get(table, {})), low)
        raise SettingsError(
            f"{source.at(table, place)}: {table}.{low} ({less:g}) is larger than {table}.{high} ({more:g})"
        )


def as_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings as nested dictionaries, tuples as lists; the inverse of ``settings_from``."""
    tables = {table: to_builtins(getattr(settings, table)) for table in TABLES}
    return {table: {key: _plain(value) for key, value in values.items()} for table, values in tables.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {key.rstrip("_"): item for key, item in value.items()} if isinstance(value, dict) else value
