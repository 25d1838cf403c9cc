"""The registrable domain of a host, by the public suffix list in the package `publicsuffixlist`: offline."""

from __future__ import annotations

from functools import cache

from publicsuffixlist import PublicSuffixList

from crawler.urls.host_key import is_address


def registrable_domain(host: str) -> str:
    """``example.co.uk`` for ``www.example.co.uk``. An address, a public suffix and a single label are returned
    unchanged."""
    if is_address(host):
        return host
    host = host.rstrip(".") or host
    return _suffixes().privatesuffix(host) or host


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
