"""How a request leaves: through which proxy, and with which headers, which only configuration knows.

Headers, logins and cookies belong to one origin (scheme, host and port). They are looked up by the URL that is
requested, so a redirect to another origin has its own, or none.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

from crawler.fetch.proxies import Proxies, Proxy, proxy_of
from crawler.fetch.secret import read_login, read_secret
from crawler.fetch.socks import check_socks
from crawler.settings import DIRECT, FetchSettings, SettingsError, Site, secret_reference
from crawler.urls.host_key import split_origin

_PORTS = {"http": "80", "https": "443"}
_KEPT = 4_096  # origins whose way is remembered


class Way(NamedTuple):
    """How requests to one origin leave. ``headers`` may contain secrets: they are sent and never shown."""

    proxy: Proxy | None = None
    headers: Mapping[str, str] | None = None


_NO_WAY_OF_ITS_OWN = Way()


class Ways:
    """The ways to all origins. Raises SettingsError if a proxy, a login or a file cannot be used."""

    def __init__(self, settings: FetchSettings, environ: Mapping[str, str]) -> None:
        self.proxies = Proxies(settings, environ)
        self._sites = {site.origin: _way(site, environ) for site in settings.site}
        for proxy in (*self.proxies.all(), *(way.proxy for way in self._sites.values())):
            if proxy is not None and proxy.socks:
                check_socks()
        self._own_proxy = {site.origin for site in settings.site if site.proxy is not None}
        self._known: dict[tuple[str, str, str], Way] = {}

    def __bool__(self) -> bool:
        """Whether any origin has a way of its own."""
        return bool(self.proxies) or bool(self._sites)

    def to(self, href: str) -> Way:
        """Return the way to the origin of a URL."""
        scheme, host, port, _ = split_origin(href)
        port = port or _PORTS.get(scheme, "")
        key = (scheme, host, port)
        way = self._known.get(key)
        if way is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = way = self._find(scheme, host, port)
        return way

    def _find(self, scheme: str, host: str, port: str) -> Way:
        name = f"{scheme}://{host}" if port == _PORTS.get(scheme) else f"{scheme}://{host}:{port}"
        way = self._sites.get(name, _NO_WAY_OF_ITS_OWN)
        return way if name in self._own_proxy else way._replace(proxy=self.proxies.of(scheme, host.strip("[]"), port))


def _way(site: Site, environ: Mapping[str, str]) -> Way:
    place = f"fetch.site {site.origin}"
    headers = {}
    for line in site.headers:
        name, _, value = line.partition(":")
        value = value.strip()
        headers[name] = read_secret(value, f"{place}: {name}", environ) if secret_reference(value) else value
    if site.login is not None:
        login = read_login(site.login, f"{place}: login", environ)
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise SettingsError(f"{place}: {name}: a header is one line of printable ASCII")
    proxy = None if site.proxy is None or site.proxy == DIRECT else proxy_of(site.proxy, f"{place}: proxy")
    return Way(proxy, headers or None)


def check_access(settings: FetchSettings) -> None:
    """Raise SettingsError if requests cannot leave as the settings say: a secret or a file is missing."""
    Ways(settings, os.environ)
    trust_of(settings)


def trust_of(settings: FetchSettings) -> ssl.SSLContext | None:
    """Return what certificates are checked with; None: with the authorities of the system. Raises SettingsError."""
    if settings.ca_file is None:
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    try:
        context.load_verify_locations(cafile=settings.ca_file)
    except ssl.SSLError as error:
        raise SettingsError(f"fetch.ca_file: {settings.ca_file} contains no certificates in PEM") from error
    except OSError as error:
        raise SettingsError(f"fetch.ca_file: cannot read {settings.ca_file}: {error.strerror}") from error
    return context
