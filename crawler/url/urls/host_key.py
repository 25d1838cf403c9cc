"""The server in an href: the host key, the host name, the sort-friendly form.

Each function takes an href as the WHATWG serialiser writes it for http and https. For other text the result is
meaningless.
"""

from __future__ import annotations

from functools import lru_cache

PORTS = {"http": 80, "https": 443}


def split_origin(href: str) -> tuple[str, str, str, str]:
    """Return (scheme, host, port, rest): port is "" if it is the default of the scheme; rest starts at the path.

    An IPv6 address keeps its brackets; credentials are left out.
    """
    start = href.index("//") + 2
    end = href.index("/", start)
    authority = href[start:end]
    if "@" in authority:
        authority = authority.rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    return href[: start - 3], host, port, href[end:]


@lru_cache(maxsize=1_024)  # called a dozen times for each URL in flight
def host_key(href: str) -> str:
    """Return ``host:port`` with the effective port, by which politeness groups URLs.

    >>> host_key("https://example.com/a"), host_key("http://[::1]:8080/")
    ('example.com:443', '[::1]:8080')
    """
    https = href.startswith("https")
    authority = href[8 if https else 7 : href.find("/", 8)]
    if "@" in authority:
        authority = authority.rpartition("@")[2]
    if ":" in authority and not authority.endswith("]"):
        return authority
    return authority + (":443" if https else ":80")


def host_name(href: str) -> str:
    """Return only the host; an IPv6 address keeps its brackets."""
    return split_origin(href)[1]


def is_address(host: str) -> bool:
    """Return True if the host of an href is an IP address. A host that ends in a number is always IPv4."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


def surt(href: str) -> str:
    """Return the sort-friendly form, with the most significant label first: ``http://(com,example,www,)/path``.

    A port other than the scheme's default follows the labels, ``http://(com,example,:8080)/``; an address is not
    reversed, ``http://(127.0.0.1)/``. Format: the Internet Archive's Sort-friendly URI Reordering Transform.
    """
    scheme, host, port, rest = split_origin(href)
    name = host if is_address(host) else ",".join(reversed(host.split("."))) + ","
    return f"{scheme}://({name}{':' + port if port else ''}){rest}"
