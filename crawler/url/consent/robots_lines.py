"""Statements of consent by path: from the lines ``Content-Signal`` and ``Content-Usage`` in a group of robots.txt, and
from files with terms (``crawler.url.consent.terms``).

A line may start with a path pattern, as in rules: ``Content-Usage: /open/ train-ai=y``. Of the lines of one kind, those
with the longest matching pattern count; a line without a pattern matches like ``/``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from crawler.url.consent.statements import NOTHING_STATED, Stated, content_signal, content_usage, stricter
from crawler.url.robots.path_patterns import STAR_BUDGET, Patterns, octets

LINES_MOST = 100  # lines read per group: each is matched for each page
_KINDS = {
    "content-signal": (content_signal, "robots.txt Content-Signal"),
    "content-usage": (content_usage, "robots.txt Content-Usage"),
}


class PathStatements:
    """The statements of a host for one crawler, by path. ``size`` is its memory in bytes."""

    __slots__ = ("_kinds", "size")

    def __init__(self, lines: Iterable[tuple[str, str, Stated]]) -> None:
        """``lines``: the kind of each line, its pattern in Latin-1 (empty: all paths), and its statements."""
        self._kinds: dict[str, list[tuple[int, Patterns | None, Stated]]] = {}
        for kind, path, stated in lines:
            pattern = Patterns([(False, path)], STAR_BUDGET // LINES_MOST) if path else None
            self._kinds.setdefault(kind, []).append((octets(path) if path else 1, pattern, stated))
        self.size = sys.getsizeof(self) + sum(
            512 + (0 if pattern is None else pattern.size) for kind in self._kinds.values() for _, pattern, _ in kind
        )

    def of(self, target: str) -> Stated:
        """Return the statements for a path with its query."""
        found = list[Stated]()
        for lines in self._kinds.values():
            fitting = [line for line in lines if line[1] is None or not line[1].allow(target)]
            longest = max((weight for weight, _, _ in fitting), default=0)
            found += [stated for weight, _, stated in fitting if weight == longest]
        return stricter(*found) if found else NOTHING_STATED


def robots_statements(lines: Iterable[tuple[str, str]]) -> PathStatements:
    """What lines of robots.txt state. ``lines``: the key of each, in lower case, and its value, in Latin-1."""
    read = list[tuple[str, str, Stated]]()
    for key, value in list(lines)[:LINES_MOST]:
        parse, source = _KINDS[key]
        path, words = [*value.split(None, 1), ""][:2] if value.startswith("/") else ("", value)
        read.append((key, path, parse(words, source)))
    return PathStatements(read)
