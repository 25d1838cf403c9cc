"""The cookies of a run: in memory, bounded, and limited to the host that set them.

A cookie is sent only to the host that set it: not to subdomains, whatever its ``Domain`` states. So no cookie can track
the crawler across sites, and registrable domains need not be known. A cookie whose ``Domain`` is neither its host nor a
parent domain is ignored (RFC 6265, 5.3).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from email.utils import parsedate_to_datetime

from msgspec import Struct

_HOSTS = 10_000  # maximum hosts; the least recently requested one is dropped first
_COOKIES = 50  # maximum cookies per host
_SIZE = 4_096  # maximum bytes of a cookie, as in browsers


class _Cookie(Struct, frozen=True):
    value: str
    path: str
    secure: bool
    expires: float | None  # seconds since 1970; None: until the end of the run


class Cookies:
    """The cookies of all hosts. Times are in seconds since 1970."""

    def __init__(self, *, hosts: int = _HOSTS) -> None:
        self._hosts: OrderedDict[str, OrderedDict[tuple[str, str], _Cookie]] = OrderedDict()
        self._most_hosts = hosts

    def header(self, host: str, path: str, *, secure: bool, now: float) -> str | None:
        """Return the Cookie header of a request; None if there is nothing to send."""
        jar = self._hosts.get(host)
        if jar is None:
            return None
        self._hosts.move_to_end(host)
        for key in [key for key, cookie in jar.items() if cookie.expires is not None and cookie.expires <= now]:
            del jar[key]
        fitting = [
            (len(cookie.path), f"{name}={cookie.value}" if name else cookie.value)
            for (name, _), cookie in jar.items()
            if (secure or not cookie.secure) and _below(path, cookie.path)
        ]
        fitting.sort(key=lambda each: -each[0])
        return "; ".join(text for _, text in fitting) or None

    def note(self, host: str, path: str, lines: Iterable[str], *, secure: bool, now: float) -> None:
        """Store the cookies from the Set-Cookie headers of an answer."""
        for line in lines:
            found = _parse(line, host, path, now)
            if found is None:
                continue
            name, cookie = found
            if cookie.secure and not secure:
                continue
            jar = self._hosts.setdefault(host, OrderedDict())
            jar.pop((name, cookie.path), None)
            if cookie.expires is None or cookie.expires > now:
                jar[name, cookie.path] = cookie
                if len(jar) > _COOKIES:
                    jar.popitem(last=False)
        if len(self._hosts) > self._most_hosts:
            self._hosts.popitem(last=False)


def joined(page: str, kept: str | None) -> str:
    """Return one header with the cookies of a rendered page and those of ours that it has not set itself."""
    names = {each.partition("=")[0] for each in page.split("; ")}
    ours = [each for each in (kept or "").split("; ") if each.partition("=")[0] not in names]
    return "; ".join(filter(None, [page, *ours]))


def _parse(line: str, host: str, path: str, now: float) -> tuple[str, _Cookie] | None:
    """Return the name and the cookie, parsed as in RFC 6265, 5.2; None if the line is invalid, too long, or meant for
    another domain."""
    if len(line) > _SIZE or not line.isascii() or not line.isprintable():
        return None
    pair, *attributes = line.split(";")
    name, equals, value = pair.partition("=")
    if not equals:
        name, value = "", pair
    name, value = name.strip(" \t"), value.strip(" \t")
    if not name and not value:
        return None
    own_path, domain, secure = "", "", False
    until: float | None = None
    age: float | None = None
    for attribute in attributes:
        key, _, text = attribute.partition("=")
        key, text = key.strip(" \t").lower(), text.strip(" \t")
        if key == "path":
            own_path = text
        elif key == "domain":
            domain = text.removeprefix(".").lower() or domain
        elif key == "secure":
            secure = True
        elif key == "max-age" and text.removeprefix("-").isdigit():
            age = -1.0 if text.startswith("-") else float(text[:10])
        elif key == "expires":
            until = _moment(text)
    if domain and host != domain and not _in_domain(host, domain):
        return None
    if not own_path.startswith("/"):
        own_path = path.rpartition("/")[0] or "/"
    return name, _Cookie(value, own_path, secure, until if age is None else now + age)


def _in_domain(host: str, domain: str) -> bool:
    """Return whether a name is below a domain. IP addresses are below none."""
    return host.endswith(f".{domain}") and not host.rpartition(".")[2].isdigit()


def _below(path: str, parent: str) -> bool:
    return path == parent or path.startswith(parent if parent.endswith("/") else parent + "/")


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text.replace("-", " ")).timestamp()
    except (ValueError, OverflowError):
        return None
