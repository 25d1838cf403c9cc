"""The configured proxy, headers and time limits of requests.

Headers, logins and cookies belong to origins (scheme, host and port). They are looked up by the requested URL, so a
redirect to another origin gets that origin's headers, or none.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.disk import check_regular
from crawler.base.settings.leaving import DIRECT, secret_reference
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import FetchSettings, Settings
from crawler.base.settings.sites import WAYS, Sites
from crawler.url.urls.host_key import split_origin
from crawler.web.fetch.proxies import Proxies, Proxy, proxy_of
from crawler.web.fetch.secret import read_login, read_secret
from crawler.web.fetch.socks import check_socks
from crawler.web.fetch.tls_sessions import ResumingContext, verifying_context
from crawler.web.identity.signer import Signer

_PORTS = {"http": "80", "https": "443"}
_KEPT = 4_096  # maximum number of origins whose profiles are remembered


class RequestProfile(Struct, frozen=True):
    """The proxy, headers and limits of requests to one origin. ``headers`` may contain secrets: they are sent and never
    shown."""

    proxy: Proxy | None = None
    headers: Mapping[str, str] | None = None
    limits: FetchSettings | None = None  # time limits, if they differ from those of all origins


class RequestProfiles:
    """The profiles of all origins. Raises SettingsError if a proxy, a login or a file cannot be used."""

    def __init__(self, settings: FetchSettings, sites: Sites | None, environ: Mapping[str, str]) -> None:
        self.proxies = Proxies(settings, environ)
        self._settings = settings
        self._environ = environ
        self._sites = sites or None
        self._values: dict[tuple[int, str], Any] = {}  # parsed tables by key: headers with their secrets, proxies
        tables = () if sites is None else sites.settings.site.tables
        for number, table in enumerate(tables):
            for key in WAYS:
                self._values[number, key] = _value(f"site {table.match}", key, getattr(table, key), environ)
        proxies = (value for (_, key), value in self._values.items() if key == "proxy")
        for proxy in (*self.proxies.all(), *proxies):
            if proxy is not None and proxy.socks:
                check_socks()
        self._known: dict[tuple[str, str, str], RequestProfile] = {}

    def changed(self, settings: FetchSettings, sites: Sites) -> RequestProfiles:
        """Return the profiles for other settings, in the same environment. Raises SettingsError."""
        return RequestProfiles(settings, sites, self._environ)

    def __bool__(self) -> bool:
        """Return True if any origin has a profile of its own."""
        return bool(self.proxies) or self._sites is not None

    def to(self, href: str) -> RequestProfile:
        """Return the profile for the origin of a URL."""
        scheme, host, port, _ = split_origin(href)
        port = port or _PORTS.get(scheme, "")
        key = (scheme, host, port)
        profile = self._known.get(key)
        if profile is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = profile = self._find(scheme, host, port)
        return profile

    def _find(self, scheme: str, host: str, port: str) -> RequestProfile:
        through = self.proxies.of(scheme, host.strip("[]"), port)
        if self._sites is None:
            return RequestProfile(through)
        limits = self._sites.of_origin(scheme, host, port).fetch
        stated = self._sites.way_of(scheme, host, port)
        own = {key: self._values[one.table, key] for key, one in stated.items()}
        headers = own.get("headers", {}) | own.get("login", {})
        proxy = own.get("proxy", through)
        return RequestProfile(proxy, headers or None, None if limits is self._settings else limits)


def _value(place: str, key: str, stated: Any, environ: Mapping[str, str]) -> Any:
    """Return the parsed value of a key: headers for "headers" and "login", a proxy or None for "proxy"."""
    if key == "proxy":
        return None if stated is None or stated == DIRECT else proxy_of(stated, f"{place}: proxy")
    headers: dict[str, str] = {}
    if key == "login" and stated is not None:
        login = read_login(stated, f"{place}: login", environ)
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    for line in (stated or ()) if key == "headers" else ():
        name, _, value = line.partition(":")
        value = value.strip()
        headers[name] = read_secret(value, f"{place}: {name}", environ) if secret_reference(value) else value
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise SettingsError(f"{place}: {name}: a header must be one line of printable ASCII")
    return headers


def check_access(settings: Settings) -> None:
    """Raise SettingsError if requests cannot be sent with these settings, because a secret or a file is missing."""
    RequestProfiles(settings.fetch, Sites(settings), os.environ)
    Signer.of(settings.identity)
    trust_of(settings.fetch)


def trust_of(settings: FetchSettings) -> ResumingContext | None:
    """Return the context that checks certificates; None: use the authorities of the system. Raises SettingsError."""
    if settings.ca_file is None:
        return None
    try:
        check_regular(Path(settings.ca_file))
        return verifying_context(settings.ca_file)
    except ssl.SSLError as error:
        raise SettingsError(f"fetch.ca_file: {settings.ca_file} contains no certificates in PEM") from error
    except OSError as error:
        raise SettingsError(f"fetch.ca_file: cannot read {settings.ca_file}: {error.strerror}") from error
