"""The registrable domain of a host, by the public suffix list in the package `publicsuffixlist`: offline."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import publicsuffixlist
from publicsuffixlist import PublicSuffixList

from crawler.url.urls.host_key import is_address

_LIST = Path(publicsuffixlist.__file__).with_name("public_suffix_list.dat")
_VERSION = b"// VERSION: "


def registrable_domain(host: str) -> str:
    """Return ``example.co.uk`` for ``www.example.co.uk``. An address, a public suffix and a single label are returned
    unchanged."""
    if is_address(host):
        return host
    host = host.rstrip(".") or host
    return _suffixes().privatesuffix(host) or host


def has_known_suffix(host: str) -> bool:
    """Return True if the list has the host's top level: ``example.org`` is a public name, ``urls.txt`` is not. The host
    may be Unicode."""
    try:
        name = host.rstrip(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        return False
    return _suffixes().publicsuffix(name, accept_unknown=False) is not None


def domain_of_key(name: bytes) -> bytes:
    """Return the registrable domain of the host in a host key; a name that is not a host key is returned unchanged.
    Each session of a host calls this, so it has a fast path that takes a tenth of the time for most hosts."""
    labels = name.rsplit(b".", 2)
    top, involved = _top(labels[-1])
    if involved is not None and len(labels) > 1 and labels[-2] and labels[-2] not in involved:
        return labels[-2] + top
    host, _, port = name.decode("ascii").rpartition(":")
    return registrable_domain(host).encode("ascii") if host and port.isdigit() else name


@lru_cache(1_024)
def _top(end: bytes) -> tuple[bytes, frozenset[bytes] | None]:
    """For a top level with a port, return the top level with its dot, and the labels before it that are part of public
    suffixes; None if all labels are."""
    top, _, port = end.decode("ascii").partition(":")
    if not port.isdigit() or not top.isalpha():
        return b"", None
    return f".{top}".encode("ascii"), _involved().get(top, frozenset())


@cache
def suffix_list_version() -> str:
    """Return the version of the list, which is its publication time."""
    with _LIST.open("rb") as stream:
        for line in stream:
            if line.startswith(_VERSION):
                return line.removeprefix(_VERSION).decode("ascii").strip()
            if line.strip() and not line.startswith(b"//"):
                break
    raise ValueError(f"{_LIST} does not state its version")


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


@cache
def _involved() -> dict[str, frozenset[bytes] | None]:
    """Return, by top level, the labels before it that are part of a public suffix; None: all labels."""
    found: dict[str, set[bytes]] = {}
    wildcards = set[str]()
    for line in _LIST.read_text("utf-8").splitlines():
        rule = line.partition(" ")[0].strip().lower()
        if not rule or rule.startswith("//"):
            continue
        *_, label, top = ["", *rule.removeprefix("!").split(".")]
        if not rule.isascii():  # rare: this codec takes as long as all other work
            label, top = (each.encode("idna").decode("ascii") for each in (label, top))
        found.setdefault(top, set()).add(label.encode("ascii"))
        if label == "*":
            wildcards.add(top)
    return {top: None if top in wildcards else frozenset(labels - {b""}) for top, labels in found.items()}
