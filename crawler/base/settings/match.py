"""What a ``[[site]]`` is about: a host, a domain, an origin, or the URLs of a pattern.

    example.org                 the host, on all its ports, with both schemes
    *.example.org               the domain: example.org and all hosts below it
    example.org:8080            the host on one port
    https://example.org         an origin: scheme, host and port; also https://*.example.org
    /news/*                     anything else is a pattern of URLs, as in [scope]

Politeness, budgets and robots.txt know hosts by name and port, whose scheme is not known. For them an origin is its
name and port.
"""

from __future__ import annotations

import re

from msgspec import Struct

PORTS = {"http": "80", "https": "443"}

_FORM = r"(?:(https?)://)?(\*\.)?([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"


class HostMatch(Struct, frozen=True):
    """The hosts that a table is about. ``below``: all below the name too. None: any scheme, any port."""

    name: str
    below: bool
    scheme: str | None
    port: str | None

    def fits(self, scheme: str | None, port: str) -> bool:
        """Whether a host of that name fits. ``port`` is never empty; ``scheme`` is None if nobody knows it."""
        if self.port is not None and self.port != port:
            return False
        return scheme is None or self.scheme is None or self.scheme == scheme


def host_match(text: str) -> HostMatch | None:
    """The hosts that are meant; None for a pattern of URLs."""
    found = re.fullmatch(_FORM, text)
    if found is None:
        return None
    scheme, below, name, port = found.groups()
    return HostMatch(name, below is not None, scheme, port or PORTS.get(scheme or ""))


def fault_of_match(text: str) -> str | None:
    """What is wrong with a match that was meant to be a host; None if nothing is, or if it may be a pattern."""
    small = text.lower()
    if small != text and re.fullmatch(_FORM, small) is not None:
        return f"must be in small letters: {small}"
    found = re.fullmatch(_FORM, text.removesuffix("/"))
    if text.endswith("/") and found is not None and not found[1]:
        return f"must have no slash at its end: {text[:-1]}"
    if not text.isascii() and "/" not in text:
        return "must be ASCII: write a name in other letters as it is in a URL, as xn--..."
    found = re.fullmatch(_FORM, text)
    if found is not None and found[2] and (found[3].startswith("[") or found[3].rpartition(".")[2].isdigit()):
        return "must not have *. in front of an address"
    return None
