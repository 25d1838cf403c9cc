"""URLs as people write them: ``example.org/page`` means ``https://example.org/page``.

Hosts that usually have no certificate get http: ``localhost``, addresses, and names with port 80.

This applies only to URLs that people type or put into lists. A link of a page never gets a scheme this way: there,
``example.org`` is a relative path.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from crawler.url.urls.host_key import is_address
from crawler.url.urls.whatwg import TRIMMED

_WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_HTTP = re.compile(r"https?:", re.IGNORECASE)
# Schemes that are followed by a number, and so look like host:port.
_NUMBERS = frozenset({"tel", "sms", "fax", "callto", "sip", "sips", "geo", "oid", "isbn", "doi", "urn", "data"})
_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#]+)(?::(?P<port>[0-9]{1,5}))?(?P<rest>[/?#].*)?\Z", re.S
)
# The only ASCII characters in host names are letters, digits and _.-; lists such as "17,example.org" and mail addresses
# have others. The set is negated because one that reaches U+10FFFF is slow to compile.
_NAME = re.compile(r"[^\x00-,/:-@\[-^`{-\x7f]+\Z")


def has_url_scheme(word: str) -> bool:
    """Return True if a word is clearly meant as a URL, not as a file name. All code that must tell the two apart uses
    this function."""
    return "://" in word or word.strip(TRIMMED).lower().startswith(("http:", "https:", "mailto:"))


def completed(text: str) -> str | None:
    """Return the text with its missing scheme; None if no scheme is missing or the text names no host.

    A host is a name with a dot, ``localhost``, an address, or any name followed by a port.
    """
    text = text.strip(TRIMMED)
    if _HTTP.match(text):
        return None
    if text.startswith("//"):
        text = text[2:]
    address = _bare_address(text)
    if address is not None:
        return f"http://{address}/"
    found = _AUTHORITY.match(text)
    if found is None:
        return None
    host, port = found["host"], found["port"]
    if port is None and _WITH_SCHEME.match(text):
        return None
    if port is not None and (int(port) > 0xFFFF or host.lower() in _NUMBERS):
        return None
    return f"{_scheme(host, port)}://{text}" if _is_host(host, bool(port)) else None


def _scheme(host: str, port: str | None) -> str:
    own = host.lower() == "localhost" or is_address(host)
    return "http" if (own and port != "443") or port == "80" else "https"


def _is_host(host: str, has_port: bool) -> bool:
    if host.startswith("["):
        return _bare_address(host[1:-1]) is not None
    labels = host.removesuffix(".").split(".")
    if not _NAME.match(host) or not all(labels):
        return False
    if labels[-1].isdigit():  # the standard treats any number as an address: 1.5 is 1.0.0.5
        return _is_address(".".join(labels))
    return len(labels) > 1 or has_port or host.lower() == "localhost"


def _is_address(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _bare_address(text: str) -> str | None:
    """Return an IPv6 address in brackets, if the text is one without them."""
    if text.count(":") < 2 or "%" in text:
        return None
    try:
        return f"[{IPv6Address(text)}]"
    except AddressValueError:
        return None
