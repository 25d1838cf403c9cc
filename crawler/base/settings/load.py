"""Converts the tables of a TOML file to ``Settings``, and checks that each key is known and each value is valid.

The caller reads the file: ``settings_from`` takes the output of ``tomllib``. It raises ``SettingsError`` with one line
that names the key, and the nearest known key if it was misspelt.
"""

from __future__ import annotations

import contextlib
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Meta, to_builtins
from msgspec.structs import replace

from crawler.base.faults import UserFault
from crawler.base.settings.leaving import (
    is_secret,
    shortened,
)
from crawler.base.settings.match import host_match
from crawler.base.settings.parts import (
    CLASSES,
    HEADERS_MOST,
    LEDGER_KINDS,
    TABLES,
    PriorityRule,
    Settings,
    SiteTable,
)
from crawler.base.settings.removed import REMOVED
from crawler.base.settings.sites import OF_PATHS
from crawler.base.units import Quantity

Tables = Mapping[str, Mapping[str, Any]]
RULES = "priority"
SITE = "site"
LISTED = {RULES: "rules", SITE: "tables"}  # tables that may occur several times in TOML, and the field for the list


class SettingsError(UserFault, ValueError):
    """A setting that cannot be used; the text is one line for the user."""


class Source:
    """The origin of settings, for messages: one text for all settings, unless a subclass is more precise."""

    def __init__(self, text: str) -> None:
        self._text = text

    def at(self, *place: str | int) -> str:
        """Return the origin of a table, or of a part of it. ``place`` is the table's name, followed by a key in the
        table, the number of an element in the key's list, and so on."""
        return self._text


# Larger values are considered typos.
_MOST_WHOLE = 2**53
_MOST_SECONDS = 1e9
# (table, key of the smaller value, key of the larger value, key whose default may break that order)
_ORDERED: tuple[tuple[str, str, str, str | None], ...] = (
    ("recrawl", "min_interval", "max_interval", None),
    ("recrawl", "mean_interval", "max_interval", "mean_interval"),
    ("recrawl", "min_interval", "mean_interval", "mean_interval"),
    ("retry", "first_wait", "max_wait", "first_wait"),
)
AT_ONCE = 1.0  # seconds between two visits of a page, if a schedule sets their times


def nearest(word: str, known: typing.Iterable[str]) -> str:
    """Return a hint in brackets for a misspelt word; empty if no known word is similar."""
    import difflib  # noqa: PLC0415, only for an unknown name

    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def has_key(table: str, key: str) -> bool:
    """Return True if ``key`` is a setting of a table."""
    return key in {name.rstrip("_") for name in TABLES[table].__struct_fields__}


def choices_of(table: str, key: str) -> tuple[str, ...]:
    """Return the values that a setting with choices may have."""
    choices: tuple[str, ...] = _marks(_hints(TABLES[table])[key])[1][0]
    return choices


def check_tables(tables: Mapping[str, Any], source: str | Source) -> None:
    """Raise SettingsError for an unknown table, or a value that is not a table."""
    source = _as_source(source)
    for table, values in tables.items():
        if table not in TABLES:
            if not isinstance(values, Mapping | list) and (inside := [name for name in TABLES if has_key(name, table)]):
                belongs = " or ".join(f"[{name}]" for name in inside)
                raise SettingsError(f"{source.at(table)}: {table} is outside of any table: it belongs in {belongs}")
            raise SettingsError(f"{source.at(table)}: unknown table [{table}]{nearest(table, TABLES)}")
        if table in LISTED and isinstance(values, list):
            for number, rule in enumerate(values):
                if not isinstance(rule, Mapping):
                    raise SettingsError(f"{source.at(table, number)}: each [[{table}]] must be a table of keys")
        elif not isinstance(values, Mapping):
            raise SettingsError(f"{source.at(table)}: [{table}] must be a table of keys")


def one_table_each(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables, with each list of TOML tables moved to a key of a single table."""
    return {
        table: {LISTED[table]: values} if table in LISTED and isinstance(values, list) else dict(values)
        for table, values in tables.items()
    }


@functools.cache
def _hints(kind: Callable[..., object]) -> Mapping[str, Any]:
    """Return the type of each key of a table. Cached, because this takes a millisecond, and a file may have many tables
    of a kind."""
    return {name.rstrip("_"): hint for name, hint in typing.get_type_hints(kind, include_extras=True).items()}


def _as_source(source: str | Source) -> Source:
    return Source(source) if isinstance(source, str) else source


def settings_from(tables: Tables, source: str | Source = "configuration") -> Settings:
    """Return the defaults overridden by the given tables. ``source`` names their origin in a message.

    Raises SettingsError for an unknown table or key, or a value of the wrong type or out of range.
    """
    source = _as_source(source)
    check_tables(tables, source)
    tables = one_table_each(tables)
    built: dict[str, Any] = {}
    for table, values in tables.items():
        kind = TABLES[table]
        if table in LISTED:
            built[table] = kind(_listed(table, values, source))
        else:
            built[table] = kind(**_read(table, kind, values, source))
    settings = Settings(**built, places=_places(tables, source))
    _check_together(settings, tables.get("seen", {}), source)
    _check_order(settings, tables, source)
    return _with_rounds(_with_warc(settings))


def _with_warc(settings: Settings) -> Settings:
    """Add ``warc`` to the outputs if a WACZ is requested, because the WACZ is made from the WARC files."""
    keep = settings.output.keep
    if "wacz" not in keep or "warc" in keep:
        return settings
    return replace(settings, output=replace(settings.output, keep=("warc", *keep)))


def _with_rounds(settings: Settings) -> Settings:
    """Enable revisits if the schedule has rounds.

    If revisits are not configured, a page may be visited again at once, so that only the schedule determines when.
    """
    if not settings.schedule.has_rounds or settings.recrawl.enabled:
        return settings
    at_once = replace(
        settings.recrawl,
        enabled=True,
        policy="adaptive",
        mean_interval=AT_ONCE,
        min_interval=AT_ONCE,
        max_interval=AT_ONCE,
    )
    return replace(settings, recrawl=at_once)


def _places(tables: Tables, source: Source) -> dict[tuple[str | int, ...], str]:
    """Return the origin of each value, by its place."""
    places: dict[tuple[str | int, ...], str] = {}
    for table, values in tables.items():
        if table not in LISTED:
            places.update(((table, key), source.at(table, key)) for key in values)
    for number, site in enumerate(tables.get(SITE, {}).get(LISTED[SITE], ())):
        if isinstance(site, Mapping):
            places.update(((SITE, number, key), source.at(SITE, number, key)) for key in site)
    return places


def _read(table: str, kind: Callable[..., object], stated: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Return the checked values of a table, by key."""
    hints, found = _hints(kind), dict[str, Any]()
    for key, value in stated.items():
        if key not in hints and (instead := REMOVED.get(f"{table}.{key}")) is not None:
            raise SettingsError(f"{source.at(table, key)}: {table}.{key} is no longer a setting: {instead}")
        if key not in hints:
            raise SettingsError(f"{source.at(table, key)}: unknown key {table}.{key}{nearest(key, hints)}")
        found[key] = _checked(f"{source.at(table, key)}: {table}.{key}", value, hints[key])
    return found


def _checked(name: str, value: Any, hint: Any) -> Any:
    if types.NoneType in typing.get_args(hint):
        if value is None:
            return None
        hint = typing.get_args(hint)[0]
    kind, marks = _marks(hint)
    if typing.get_origin(kind) is not tuple:
        return _single(name, value, kind, marks)
    item, own = _marks(typing.get_args(kind)[0])
    if not isinstance(value, (list, tuple)):
        words = "strings" if item is str else "whole numbers"
        raise SettingsError(f"{name} must be a list of {words}, not {shortened(value)}")
    return tuple(_single(name, each, item, (*marks, *own), "is a list whose items must each be") for each in value)


def _marks(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its ``Annotated``, and the annotations."""
    return typing.get_args(hint)[0] if (said := getattr(hint, "__metadata__", ())) else hint, said


def _single(name: str, value: Any, kind: Any, marks: tuple[Any, ...], must: str = "must be") -> Any:
    quantity = next((mark for mark in marks if isinstance(mark, Quantity)), None)
    if quantity is not None and isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = quantity.read(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        # Replace huge integers by one that a float can represent and that is still beyond every bound.
        value = float(max(-(2**1000), min(value, 2**1000)))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
        choices = next((f", {' or '.join(mark)}" for mark in marks if isinstance(mark, tuple)), "")
        expected = quantity.expected if quantity else words[kind] + choices
        raise SettingsError(f"{name} {must} {expected}, not {shortened(value)}")
    if kind in (int, float):
        _check_number(name, value, next((mark for mark in marks if isinstance(mark, Meta)), Meta()))
    _check(name, value, marks)
    return value


def _check(name: str, item: Any, marks: tuple[Any, ...]) -> None:
    """Raise SettingsError for an unknown choice, or a value that a check function rejects."""
    for mark in marks:
        if isinstance(mark, tuple) and item not in mark:
            raise SettingsError(f"{name}: unknown {item!r}{nearest(item, mark)}; known: {', '.join(mark)}")
        fault = mark(item) if callable(mark) else None
        if fault is not None:
            raise SettingsError(f"{name} {fault}")


def _check_number(name: str, value: float, bound: Meta) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{name} must be finite, not {value}")
    if bound.lt is not None and bound.gt is not None and not bound.gt < value < bound.lt:
        raise SettingsError(f"{name} must be between {bound.gt} and {bound.lt}, both excluded, not {shortened(value)}")
    if bound.gt is not None and value <= bound.gt:
        raise SettingsError(f"{name} must be above {bound.gt}, not {shortened(value)}")
    if value < (bound.ge or 0):
        raise SettingsError(f"{name} must be at least {bound.ge or 0}, not {shortened(value)}")
    most = bound.le or (_MOST_WHOLE if isinstance(value, int) else _MOST_SECONDS)
    if value > most:
        raise SettingsError(f"{name} must be at most {most:,.16g}, not {shortened(value)}")


def _listed(table: str, stated: Mapping[str, Any], source: Source) -> tuple[PriorityRule | SiteTable, ...]:
    """Return the tables of a list."""
    each, known, tables = "site" if table == SITE else "rule", LISTED[table], stated.get(LISTED[table], ())
    odd = sorted(set(stated) - {known})
    if odd or not isinstance(tables, (list, tuple)):
        inside = [key for key in odd if isinstance(stated[key], dict)]  # a [site.x] has a line of its own
        raise SettingsError(f"{source.at(table, *inside[:1])}: write a separate [[{table}]] for each {each}")
    make = _site if table == SITE else _rule
    return tuple(make(number, one, source) for number, one in enumerate(tables))


def _rule(number: int, stated: Any, source: Source) -> PriorityRule:
    if isinstance(stated, PriorityRule):
        return stated
    name = f"{source.at(RULES, number)}: {RULES} rule {number + 1}"
    if not isinstance(stated, Mapping):
        raise SettingsError(f"{name} must be a table of keys")
    found = _read(RULES, PriorityRule, stated, _Nested(source, (RULES, number)))
    if "class" not in found:
        raise SettingsError(f"{name} has no class: add class = 0 (goes first) to {CLASSES - 1}")
    return PriorityRule(class_=found.pop("class"), **found)


def _site(number: int, stated: Any, source: Source) -> SiteTable:
    if isinstance(stated, SiteTable):
        return stated
    name, of_site = f"{source.at(SITE, number)}: {SITE} {number + 1}", _Nested(source, (SITE, number))
    if not isinstance(stated, Mapping):
        raise SettingsError(f"{name} must be a table of keys")
    found = _read(SITE, SiteTable, stated, of_site)
    if "match" not in found:
        raise SettingsError(f'{name} has no match: add one, as in match = "example.org"')
    site = SiteTable(**found)
    _check_site(site, of_site)
    return site


def _check_site(site: SiteTable, source: Source) -> None:
    """Reject keys that cannot apply to the table's match, and secrets that would be sent unencrypted."""
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
                f"{name} applies to hosts, but match = {site.match!r} is a pattern of URLs: write it in a separate "
                f'table, as in match = "{instead}"'
            )
        secret = key == "login" or (key == "headers" and any(map(is_secret, value)))
        if secret and match is not None and match.scheme is None:
            raise SettingsError(
                f"{name} is a secret: include the scheme, as in match = {f'https://{site.match}'!r}, so that it "
                "is not sent unencrypted by mistake"
            )
    if site.group is not None and not site.group.strip():
        raise SettingsError(f"{source.at(SITE, 'group')}: {SITE}.group must be a name")
    low, high = site.min_interval, site.max_interval
    if low is not None and high is not None and low > high:
        raise SettingsError(
            f"{source.at(SITE, 'min_interval')}: {SITE}.min_interval ({low:g}) is larger than "
            f"{SITE}.max_interval ({high:g})"
        )
    if site.interval is not None and (low or high):
        raise SettingsError(
            f"{source.at(SITE, 'interval')}: {SITE}.interval is the time between any two visits: remove the other "
            "intervals"
        )


class _Nested(Source):
    """A source for the elements of a list of tables."""

    def __init__(self, source: Source, place: tuple[str | int, ...]) -> None:
        self._source = source
        self._place = place

    def at(self, *place: str | int) -> str:
        return self._source.at(*self._place, *place[1:])


def _check_together(settings: Settings, asked_for: Mapping[str, Any], source: Source) -> None:
    """Check settings against each other. ``asked_for`` contains the settings of the seen-set that were given
    explicitly."""
    if settings.schedule.every_hours is not None and settings.schedule.times:
        place = source.at("schedule", "times")
        raise SettingsError(f"{place}: schedule.times and schedule.every_hours both set the start of a round: keep one")
    if len(settings.output.headers) > HEADERS_MOST:
        place = source.at("output", "headers")
        raise SettingsError(f"{place}: output.headers names more than {HEADERS_MOST} headers")
    if asked_for.get("ledger") and settings.seen.kind not in LEDGER_KINDS:
        raise SettingsError(
            f"{source.at('seen', 'ledger')}: seen.ledger works with the kinds {', '.join(LEDGER_KINDS)}, not "
            f"with {settings.seen.kind}: remove one"
        )
    if settings.seen.kind == "exact" and settings.seen.hash != "blake2b":
        raise SettingsError(
            f"{source.at('seen', 'hash')}: seen.kind exact promises that no URL is mistaken for another, but the hash "
            f"{settings.seen.hash} cannot promise that: remove one"
        )
    if settings.traps.near_duplicates and settings.traps.duplicates == "off":
        raise SettingsError(
            f'{source.at("traps", "near_duplicates")}: traps.near_duplicates needs traps.duplicates, which is "off"'
        )
    for number, site in enumerate(settings.site.tables):
        if site.per_host is not None and site.per_host > settings.crawl.concurrency:
            place = settings.places.get((SITE, number, "per_host"), source.at(SITE))
            raise SettingsError(
                f"{place}: {SITE}.per_host ({site.per_host}) is larger than "
                f"crawl.concurrency ({settings.crawl.concurrency}): the excess could never be used"
            )
    if settings.politeness.per_host > settings.crawl.concurrency:
        raise SettingsError(
            f"{source.at('politeness', 'per_host')}: politeness.per_host ({settings.politeness.per_host}) is larger "
            f"than crawl.concurrency ({settings.crawl.concurrency}): the excess could never be used"
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
    """Return the settings as nested dictionaries, tuples as lists; the inverse of ``settings_from``."""
    tables = {table: to_builtins(getattr(settings, table)) for table in TABLES}
    return {table: {key: _plain(value) for key, value in values.items()} for table, values in tables.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {key.rstrip("_"): item for key, item in value.items()} if isinstance(value, dict) else value
