"""The address the dashboard listens on."""

from __future__ import annotations

import ipaddress
import re

_LISTEN = re.compile(r"(?:(?P<host>\[[^\]]*\]|[^\[\]:]+):)?(?P<port>[0-9]{1,5})")


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``. The default host is 127.0.0.1; port 0 means any free port.

    An IPv6 address is written in brackets, which are removed from the returned host. Raises ValueError with one line.
    """
    match = _LISTEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"dashboard address {text!r} is not [HOST:]PORT (an IPv6 host in brackets)")
    host, port = match["host"] or "127.0.0.1", int(match["port"])
    if port > 65_535:
        raise ValueError(f"dashboard port {port} is above 65535")
    if host.startswith("["):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"dashboard host [{host}] is not an IPv6 address") from None
    return host, port


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach ``host``: a loopback address, or ``localhost`` (RFC 6761, 6.3)."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
