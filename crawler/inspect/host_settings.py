"""The settings in force for a host or URL, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from crawler.base.settings.leaving import DIRECT
from crawler.base.settings.sites import OF_HOSTS, OF_PATHS, OF_URLS, WAYS, Sites
from crawler.url.scope.url_sites import UrlSites

DEFAULT = "default"


class SettingInForce(Struct, frozen=True):
    """A setting by its key in a ``[[site]]``, its value, and its source: a line of the configuration or a flag, or
    ``DEFAULT``. Headers are shown by name only, logins as references."""

    key: str
    value: Any
    place: str


def host_settings(sites: Sites, name: str) -> list[SettingInForce]:
    """Return all settings of a host, given with its port."""
    return list(_of_host(sites, name))


def url_settings(sites: Sites, name: str, href: str) -> list[SettingInForce]:
    """Return the settings of a URL's host, and those that a ``[[site]]`` sets for this URL in particular."""
    return [*_of_host(sites, name), *_of_url(sites, href)]


def _of_host(sites: Sites, name: str) -> Iterator[SettingInForce]:
    parts, stated, places = sites.of_host(name), sites.stated(name), sites.settings.places
    for key, (part, field) in OF_HOSTS.items():
        value = getattr(getattr(parts, part), field)
        if key in stated:
            yield SettingInForce(key, _plain(value), _place(sites, stated[key].table, key))
        else:
            yield SettingInForce(key, _plain(value), places.get((part, field), DEFAULT))
    for key in ("rate", "group", *WAYS):
        if key in stated:
            yield SettingInForce(key, _shown(key, stated[key].value), _place(sites, stated[key].table, key))


def _of_url(sites: Sites, href: str) -> Iterator[SettingInForce]:
    urls = UrlSites.of_settings(sites.settings)
    if urls is None:
        return
    own = urls.of_url(href)
    for key in (*OF_URLS, *sorted(OF_PATHS - set(OF_URLS))):
        if key in own.places:
            table = own.places[key]
            value = getattr(sites.settings.site.tables[table], key)
            yield SettingInForce(key, _plain(value), _place(sites, table, key))


def _place(sites: Sites, table: int, key: str) -> str:
    return sites.settings.places.get(("site", table, key)) or f"[[site]] {table + 1}"


def _shown(key: str, value: Any) -> Any:
    if key == "headers":
        return [line.partition(":")[0] for line in value]
    return value if key != "proxy" or value != DIRECT else "none"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def setting_words(setting: SettingInForce) -> str:
    """Return a setting as text, such as ``delay 5.0 (crawl.toml, line 7)``."""
    value = setting.value
    if value is None:
        text = "no limit"
    elif isinstance(value, list):
        text = ", ".join(map(str, value)) or ("always" if setting.key == "hours" else "none")
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{setting.key} {text} ({setting.place})"
