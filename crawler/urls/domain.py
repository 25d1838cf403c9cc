"""The registrable domain of a host, by the public suffix list in the package `publicsuffixlist`: offline."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from publicsuffixlist import PSLFILE, PublicSuffixList

from crawler.urls.host_key import is_address


def registrable_domain(host: str) -> str:
    """``example.co.uk`` for ``www.example.co.uk``. An address, a public suffix and a single label are returned
    unchanged."""
    last = host.rfind(".")
    pair, involved = host[host.rfind(".", 0, last) + 1 :], _involved()
    # Each session of a host asks for its domain, and the package takes ten times as long.
    if pair not in involved and host[last + 1 :] not in involved and host[-1:].isalpha() and ".." not in host:
        return pair if host[0] != "." else host
    if is_address(host):
        return host
    host = host.rstrip(".") or host
    return _suffixes().privatesuffix(host) or host


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


@cache
def _involved() -> frozenset[str]:
    """Names of two labels that are public suffixes, or that some end in, and top levels with a wildcard. The last two
    labels of any other host are its domain."""
    names = set[str]()
    for line in Path(PSLFILE).read_text("utf-8").splitlines():
        rule = line.partition(" ")[0].strip().lower()
        if not rule or rule.startswith("//"):
            continue
        labels = rule.removeprefix("!").split(".")[-2:]
        name = ".".join(labels[1:] if labels[0] == "*" else labels)
        if labels[0] == "*" or len(labels) == 2:
            names.add(name if name.isascii() else name.encode("idna").decode("ascii"))
    return frozenset(names)
