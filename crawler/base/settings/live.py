"""Which reloaded settings a running crawl can apply, and which need a restart. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.figures import counted
from crawler.base.settings.parts import TABLES, Settings, SiteTable

_SHOWN = 60  # maximum number of characters shown of a value

# Keys of each table that can change while a crawl runs; None means all of them.
LIVE: dict[str, frozenset[str] | None] = {
    "crawl": frozenset(("max_pages", "max_time", "max_depth")),
    "scope": None,
    "priority": None,
    "fetch": frozenset(("connect_timeout", "headers_timeout", "body_timeout")),
    "identity": None,
    "retry": None,
    "output": frozenset(("fields", "headers")),
    "schedule": frozenset(("hours", "time_zone")),
    "browser": frozenset(("when", "third_parties", "post")),
    "site": None,
}
# Keys of these tables that need a restart; all other keys of these tables can change.
_FIXED: dict[str, frozenset[str]] = {
    "politeness": frozenset(("host_key", "retry_retired")),
    "budget": frozenset(("domain_pages",)),
    "recrawl": frozenset(("enabled", "policy")),
    "traps": frozenset(("duplicates", "near_duplicates", "soft404")),
}


class Change(Struct, frozen=True):
    """A changed setting: its table and key, and its old and new values as text without secrets."""

    setting: str
    before: str
    after: str

    @property
    def words(self) -> str:
        return f"{self.setting} {self.before} -> {self.after}"


class Merged(Struct, frozen=True):
    """``settings`` are those of the running crawl with all new values that can be applied at once, which ``changed``
    lists. ``restart`` lists the changes that need a restart."""

    settings: Settings
    changed: tuple[Change, ...]
    restart: tuple[Change, ...]


def is_live(table: str, key: str) -> bool:
    """Return True if a setting can change while a crawl runs."""
    if table in _FIXED:
        return key not in _FIXED[table]
    keys = LIVE.get(table, frozenset())
    return keys is None or key in keys


def merge(now: Settings, read: Settings) -> Merged:
    """Merge the settings of a running crawl (``now``) with those that were read again from its configuration
    (``read``)."""
    parts: dict[str, Any] = {}
    changed, restart = list[Change](), list[Change]()
    for table in TABLES:
        old, new = getattr(now, table), getattr(read, table)
        for key in type(old).__struct_fields__:
            before, after = getattr(old, key), getattr(new, key)
            if before == after:
                continue
            live = is_live(table, key) and not (table == "site" and old.groups != new.groups)
            (changed if live else restart).extend(_changes(table, key, before, after))
            if live:
                parts.setdefault(table, {})[key] = after
    settings = replace(now, **{table: replace(getattr(now, table), **keys) for table, keys in parts.items()})
    kept = {place: text for place, text in now.places.items() if not is_live(str(place[0]), str(place[-1]))}
    taken = {place: text for place, text in read.places.items() if is_live(str(place[0]), str(place[-1]))}
    return Merged(replace(settings, places=kept | taken), tuple(changed), tuple(restart))


def _changes(table: str, key: str, before: Any, after: Any) -> list[Change]:
    if table == "site":
        return _sites(before, after)
    if table in ("dashboard", "notify"):
        return [Change(f"{table}.{key}", "...", "another")]  # the value may be a token
    if table == "priority":
        return [Change("[[priority]]", counted(len(before), "rule"), counted(len(after), "rule"))]
    return [Change(f"{table}.{key}", _value(before), _value(after))]


def _sites(before: tuple[SiteTable, ...], after: tuple[SiteTable, ...]) -> list[Change]:
    """Return a change that shows only which hosts the changed tables match, because the tables may contain secrets."""
    differ = dict.fromkeys(site.match for site in (*before, *after) if (site in before) != (site in after))
    matches = ", ".join(differ) or "their order"
    text = matches if len(matches) <= _SHOWN else f"{matches[:_SHOWN]}..."
    return [Change(f"[[site]] ({text})", counted(len(before), "table"), counted(len(after), "table"))]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
