"""Selects the proxy of a request: from the settings, or from the environment, as curl and wget do."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

import aiohttp
import yarl
from msgspec import Struct

from crawler.base.settings.leaving import DIRECT, PROXY_SCHEMES
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import FetchSettings
from crawler.url.refusal.special_addresses import is_loopback
from crawler.web.fetch.secret import read_login

_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}


class ProxyTrouble(aiohttp.ClientError):
    """The proxy cannot be reached, or does not serve us."""


class Proxy(Struct, frozen=True):
    """A proxy. ``url`` may contain a login; ``shown`` is the form for messages."""

    url: yarl.URL
    shown: str

    @property
    def socks(self) -> bool:
        return self.url.scheme.startswith("socks")


def proxy_of(text: str, name: str, login: str | None = None) -> Proxy:
    """Return the proxy of a URL. The default scheme is http, as in curl. ``login`` is ``user:password``. Raises
    SettingsError, which does not quote the URL, because it may contain a password."""
    try:
        url = yarl.URL(text if "://" in text else f"http://{text}")
        port = url.port or _PORTS.get(url.scheme)
        host = url.host
    except ValueError as error:
        raise SettingsError(f"{name}: not the URL of a proxy") from error
    if url.scheme not in PROXY_SCHEMES or not host or not port:
        raise SettingsError(f"{name}: not the URL of a proxy; write SCHEME://HOST:PORT ({', '.join(PROXY_SCHEMES)})")
    if login is None and (url.raw_user or url.raw_password):
        login = f"{unquote(url.raw_user or '')}:{unquote(url.raw_password or '')}"
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    shown = f"{url.scheme}://{authority}"
    if login is None:
        return Proxy(yarl.URL(shown), shown)
    user, _, password = login.partition(":")
    secret = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return Proxy(yarl.URL(f"{url.scheme}://{secret}@{authority}", encoded=True), shown)


class Proxies:
    """The proxies of a run. The settings override the environment; a proxy set for an origin overrides both."""

    def __init__(self, settings: FetchSettings, environ: Mapping[str, str]) -> None:
        self._own: Proxy | None = None
        self._from_environment: dict[str, Proxy] = {}
        self._direct = list(settings.no_proxy)
        if settings.proxy is None:
            self._read(environ)
        elif settings.proxy != DIRECT:
            login = settings.proxy_login
            secret = None if login is None else read_login(login, "fetch.proxy_login", environ)
            self._own = proxy_of(settings.proxy, "fetch.proxy", secret)

    def _read(self, environ: Mapping[str, str]) -> None:
        """Read the variables of curl and wget, in lower or upper case; lower case wins. As in curl and wget, HTTP_PROXY
        counts only outside of CGI, where a visitor could set it."""
        found = {name.lower(): value for name, value in environ.items() if name.isupper()}
        if "REQUEST_METHOD" in environ:
            found.pop("http_proxy", None)
        found.update({name: value for name, value in environ.items() if name.islower()})
        for scheme in ("http", "https"):
            for name in (f"{scheme}_proxy", "all_proxy"):
                if found.get(name):
                    self._from_environment.setdefault(scheme, proxy_of(found[name], name.upper()))
        if self._from_environment:
            self._direct += found.get("no_proxy", "").split(",")

    def __bool__(self) -> bool:
        return self._own is not None or bool(self._from_environment)

    def all(self) -> Iterable[Proxy]:
        return self._from_environment.values() if self._own is None else (self._own,)

    def of(self, scheme: str, host: str, port: str) -> Proxy | None:
        """Return the proxy for requests to a host; None: they go directly. ``host`` has no brackets."""
        proxy = self._own or self._from_environment.get(scheme)
        if proxy is None or _named(self._direct, host, port):
            return None
        # A proxy variable for the web does not cover servers on this machine. (Go does the same.)
        return None if self._own is None and is_loopback(host) else proxy

    def spoken(self) -> list[str]:
        """Return the notices to show the user when a run starts."""
        if self._own is not None:
            return [f"requests go through {self._own.shown}"]
        return [
            f"{scheme} requests go through {proxy.shown}, as set in the environment; use `--proxy direct` to ignore it"
            for scheme, proxy in self._from_environment.items()
        ]


def _named(entries: Iterable[str], host: str, port: str) -> bool:
    """Return whether a host is in a list like NO_PROXY: names, which include their subdomains, with or without a port;
    addresses and networks; ``*`` for everything."""
    for entry in map(str.strip, entries):
        name, colon, own_port = entry.rpartition(":")
        if not colon or not own_port.isdigit() or name.endswith(":"):
            name, own_port = entry, ""
        name = name.strip("[]").removeprefix("*.").lstrip(".").lower()
        if own_port not in ("", port) or not name:
            continue
        if name in ("*", host) or host.endswith("." + name) or _inside(host, name):
            return True
    return False


def _inside(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
