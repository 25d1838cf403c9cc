"""From an href to its key, one small step after another.

A step maps the text of a URL to another text and is named after its effect. Each merges only what no server
distinguishes: spellings that RFC 3986 (section 6.2.2) calls equivalent, credentials, a question mark with nothing after
it. The order matters: a lone ``%`` is escaped before triplets are decoded, so that ``%%37e`` cannot become a new
triplet.

``identity`` does all steps in one pass, for speed; tests compare it with applying ``STEPS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LONE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRIPLET = re.compile(r"%[0-9A-Fa-f]{2}")
_TRIPLET_OR_LONE = re.compile(r"%(?:[0-9A-Fa-f]{2})?")

# RFC 3986, 2.3
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def drop_userinfo(href: str) -> str:
    """``http://user:pass@host/`` -> ``http://host/``."""
    start = href.find("//") + 2
    if start < 2:
        return href  # not canonical
    authority, slash, rest = href[start:].partition("/")
    return href[:start] + authority.rpartition("@")[2] + slash + rest


def escape_lone_percent(href: str) -> str:
    """``/100%`` -> ``/100%25``: a ``%`` without two hexadecimal digits stands for itself."""
    return _LONE.sub("%25", href)


def decode_unreserved(href: str) -> str:
    """``/%7Euser`` -> ``/~user``; a triplet of any other character stays."""
    return _TRIPLET.sub(lambda triplet: _decoded(triplet[0]), href)


def upper_case_triplets(href: str) -> str:
    """``/a%2fb`` -> ``/a%2Fb``."""
    return _TRIPLET.sub(lambda triplet: triplet[0].upper(), href)


def drop_empty_query(href: str) -> str:
    """``/page?`` -> ``/page``; a query that is itself a question mark stays."""
    return href[:-1] if href.find("?") == len(href) - 1 else href


def _decoded(triplet: str) -> str:
    character = chr(int(triplet[1:], 16))
    return character if character in _UNRESERVED else triplet


STEPS: tuple[Callable[[str], str], ...] = (
    drop_userinfo,
    escape_lone_percent,
    decode_unreserved,
    upper_case_triplets,
    drop_empty_query,
)


_HEX = "0123456789ABCDEFabcdef"
_TIDY = {"%": "%25"} | {f"%{a}{b}": _decoded(f"%{a}{b}".upper()) for a in _HEX for b in _HEX}


def tidy_percent(text: str) -> str:
    """Apply the three steps about ``%`` in one pass, to an href or any part of one."""
    return _TRIPLET_OR_LONE.sub(lambda found: _TIDY[found[0]], text) if "%" in text else text


def identity(href: str) -> str:
    """Return the key of an href before opt-in rules: all of ``STEPS`` in one pass."""
    if "@" in href:
        href = drop_userinfo(href)
    return drop_empty_query(tidy_percent(href))
