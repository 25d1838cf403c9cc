"""Recognises traps by the text of a URL: an odd path, or the pattern that it shares with its variants.

A *pattern* covers all URLs of a host that differ only in numbers or generated identifiers. A run of digits becomes
``#``. An identifier becomes ``*``: a UUID, 8 or more letters and digits that alternate, 8 hexadecimal digits or 16
characters of both. The query keeps only the distinct names of its parameters, sorted::

    /calendar/2031-02-28?view=week&sid=9f86d081  ->  /calendar/#-#-#?sid&view
    /item/550e8400-e29b-41d4-a716-446655440000   ->  /item/*
    /covid19/page2                               ->  /covid#/page#

A path without numbers or identifiers, and without a query, has no variants.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_SEGMENTS = 32  # path segments; relative links that miss their target make ever longer paths
MAX_REPEATS = 4  # occurrences of one segment in a path, as in /a/b/a/b/a/b
MOST_NAMES = 32  # distinct parameters in a pattern; bounds its length, not the counts

_VARYING = re.compile(
    r"""
    %[0-9A-Fa-f]{2}                                             # a character: its digits count nothing up
    | (?<![0-9A-Za-z]) (?:
        [0-9A-Fa-f]{8} (?:-[0-9A-Fa-f]{4}){3} -[0-9A-Fa-f]{12}  # a UUID
        | (?=[A-Za-z]*[0-9]+[A-Za-z]+[0-9]) [0-9A-Za-z]{8,}+
        | (?=[A-Za-z]*[0-9]) (?=[0-9]*[A-Za-z]) (?: [0-9A-Fa-f]{8,}+ | [0-9A-Za-z]{16,}+ )
      ) (?![0-9A-Za-z])
    | [0-9]+
    """,
    re.X,
)
_SEPARATOR = re.compile("[&;]")


def split_path(target: str) -> tuple[str, str | None]:
    """Split a target into path and query; the query is None if there is no question mark."""
    path, mark, query = target.partition("?")
    return path, query if mark else None


def variants_of(path: str, query: str | None) -> str | None:
    """Return the pattern of a URL, or None if it has no variants."""
    if query is None:
        pattern = fold(path)
        return None if pattern == path else pattern
    names = sorted({fold(pair.partition("=")[0]) for pair in _SEPARATOR.split(query)})
    return f"{fold(path)}?{'&'.join(names[:MOST_NAMES])}"


def odd_shape(path: str) -> tuple[str, str] | None:
    """Return the limit that a path exceeds and a description, or None if it exceeds none."""
    segments = path.count("/")
    if segments > MAX_SEGMENTS:
        return "traps.max_segments", f"{segments} segments in the path"
    if segments > MAX_REPEATS:
        segment, times = Counter(path.split("/")[1:]).most_common(1)[0]
        if times > MAX_REPEATS:
            return "traps.max_repeats", f"the segment {segment[:80]!r} {times} times in the path"
    return None


def fold(text: str) -> str:
    """Replace numbers with ``#`` and ids with ``*``."""
    return _VARYING.sub(_folded, text)


def _folded(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == "%":
        return text
    return "#" if text.isdigit() else "*"


def path_shape(href: str) -> tuple[int, str]:
    """Return the shape of a URL's path: its number of segments, and the pattern of the first one."""
    path = href[href.find("/", 8) :].partition("?")[0]
    return path.count("/"), fold(path[1:].partition("/")[0])
