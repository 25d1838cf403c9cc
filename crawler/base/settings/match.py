"""The match of a ``[[site]]``: a host, a domain, an origin, or a pattern of URLs.

    example.org                 the host, on all ports, with both schemes
    *.example.org               the domain: example.org and all hosts below it
    example.org:8080            the host on one port
    https://example.org         an origin: scheme, host and port; also https://*.example.org
    /news/*                     anything else is a pattern of URLs, as in [scope]

Politeness, budgets and robots.txt identify hosts by name and port, without the scheme. For them, an origin counts as
its name and port.
"""

from __future__ import annotations

import re

from msgspec import Struct

PORTS = {"http": "80", "https": "443"}

_FORM = r"(?:(https?)://)?(\*\.)?([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"


class HostMatch(Struct, frozen=True):
    """The hosts that a table matches. With ``below``, all hosts below the name match too. A scheme or port of None
    matches any."""

    name: str
    below: bool
    scheme: str | None
    port: str | None

    def fits(self, scheme: str | None, port: str) -> bool:
        """Return True if a host of that name matches. ``port`` is never empty; ``scheme`` is None if unknown."""
        if self.port is not None and self.port != port:
            return False
        return scheme is None or self.scheme is None or self.scheme == scheme


def host_match(text: str) -> HostMatch | None:
    """Return the matched hosts, or None for a pattern of URLs."""
    found = re.fullmatch(_FORM, text)
    if found is None:
        return None
    scheme, below, name, port = found.groups()
    return HostMatch(name, below is not None, scheme, port or PORTS.get(scheme or ""))


def fault_of_match(text: str) -> str | None:
    """Return what is wrong with a match that was meant to be a host; None if the match is valid, or may be a
    pattern."""
    small = text.lower()
    if small != text and re.fullmatch(_FORM, small) is not None:
        return f"must be in lower case: {small}"
    found = re.fullmatch(_FORM, text.removesuffix("/"))
    if text.endswith("/") and found is not None and not found[1]:
        return f"must not end with a slash: {text[:-1]}"
    if not text.isascii() and "/" not in text:
        return "must be ASCII: write other characters as in a URL, as xn--..."
    found = re.fullmatch(_FORM, text)
    if found is not None and found[2] and (found[3].startswith("[") or found[3].rpartition(".")[2].isdigit()):
        return "must not have *. in front of an address"
    return None
