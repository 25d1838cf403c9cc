"""URLs in the order of an index: ``http://www.example.com/A?b`` becomes ``com,example)/a?b``.

Readers look up a URL by this key, so it must have the form that they use: that of the Internet Archive, pywb and
OpenWayback. Several URLs can have the same key, because the scheme, ``www.``, case, the order of query parameters, and
session ids are ignored. The index line also contains the fetched URL itself.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from crawler.url.urls.host_key import split_origin

_WWW = re.compile(r"www\d*\.")
_ESCAPED = re.compile(r"[\x00-\x20\x7f-\xff#%]")
_SLASHES = re.compile("//+")
# Session ids in paths (ASP.NET) and in queries. The last one of each kind is removed.
_PATH_SESSIONS = tuple(
    re.compile(rf"(.*/)\({session}\)/([^?]+\.aspx.*)", re.DOTALL)
    for session in (r"(?:[a-z]\([0-9a-z]{24}\))+", "[0-9a-z]{24}")
)
_QUERY_SESSIONS = tuple(
    re.compile(rf"(.*)(?:{session})(?:&(.*))?", re.IGNORECASE | re.DOTALL)
    for session in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=[^&]+&cftoken=[^&]+",
    )
)


def surt(url: str) -> str:
    """Return the key of a canonical URL."""
    _, host, port, rest = split_origin(url)
    path, _, query = rest.partition("#")[0].partition("?")
    after = f"?{_query(query)}" if query else ""
    return f"{_host(host)}{':' + port if port else ''}){_path(path)}{after if after != '?' else ''}"


def _host(host: str) -> str:
    if host.startswith("["):
        return host[1:-1]
    return ",".join(reversed(_WWW.sub("", host.lower(), count=1).strip(".").split(".")))


def _path(path: str) -> str:
    path = _without_dots(_decoded(path))
    path = _encoded(path).lower()
    for session in _PATH_SESSIONS:
        found = session.fullmatch(path)
        if found:
            path = found[1] + found[2]
    return path.rstrip("/") or "/"


def _query(query: str) -> str:
    query = _encoded(_decoded(query)).lower()
    for session in _QUERY_SESSIONS:
        found = session.fullmatch(query)
        if found:
            query = found[1] + (found[2] or "")
    return "&".join(sorted(query.split("&"), key=lambda part: part.partition("=")))


def _decoded(text: str) -> str:
    """Decode percent-encoding repeatedly, until none is left."""
    while True:
        once = unquote_to_bytes(text.encode("latin-1")).decode("latin-1")
        if once == text:
            return text
        text = once


def _encoded(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02x}", text)


def _without_dots(path: str) -> str:
    kept: list[str] = []
    for part in path.split("/")[1:]:
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part != ".":
            kept.append(part)
    return _SLASHES.sub("/", f"/{'/'.join(kept)}/")
