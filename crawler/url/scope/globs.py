"""Globs with number ranges, matched in time linear in the text.

``*`` matches any run of characters. ``{1..50}`` matches a number from 1 to 50: a whole run of decimal digits, with or
without leading zeros. A glob is split into pieces at its wildcards. The start of a piece determines its end, because a
range takes as many digits as possible, and a later start never ends earlier. Each piece can therefore be matched at its
first occurrence, without backtracking.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

ANY = "\0"  # stands for anything a wildcard matches; never occurs in a URL
_DIGITS_MOST = 18  # maximum digits of a bound

_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_digits = re.compile(r"[0-9]++")

Test = Callable[[str], bool]


class GlobError(ValueError):
    """A glob that no text can match; the message gives the reason to the user."""


class NumberRange(Struct, frozen=True):
    """The whole numbers from ``least`` to ``most``."""

    least: int
    most: int

    @classmethod
    def parse(cls, least: str, most: str) -> NumberRange:
        """Parse the bounds. Raises GlobError."""
        if max(len(least), len(most)) > _DIGITS_MOST:
            raise GlobError(f"a bound of a number range has at most {_DIGITS_MOST} digits")
        if int(least) > int(most):
            raise GlobError(f"the number range {least}..{most} is empty: the smaller number comes first")
        return cls(int(least), int(most))

    def holds(self, digits: str) -> bool:
        """Return True if a run of digits is in the range."""
        digits = digits.lstrip("0") or "0"
        return len(digits) <= _DIGITS_MOST and self.least <= int(digits) <= self.most

    def end(self, text: str, at: int) -> int:
        """Return where the number that starts at a position ends; -1 if there is none in the range."""
        found = _digits.match(text, at)
        if found is None or (at and text[at - 1].isdecimal()) or not self.holds(found[0]):
            return -1
        return found.end()

    def start(self, text: str, end: int) -> int:
        """Return where the number that ends at a position starts; -1 if there is none in the range."""
        at = len(text[:end].rstrip("0123456789"))
        return at if self.end(text, at) == end else -1


Piece = tuple[str | NumberRange, ...]  # without wildcards; strings stand for themselves


def parse(text: str) -> list[Piece]:
    """Return the pieces between the wildcards. Raises GlobError."""
    return [_piece(part) for part in text.split("*")]


def test_of(pieces: list[Piece]) -> Test:
    """Return a function that tests whether a text matches; the most common forms need only one string operation."""
    match pieces:
        case [(), ()]:
            return lambda text: True
        case [(str(start),), ()]:
            return lambda text: text.startswith(start)
        case [(), (str(end),)]:
            return lambda text: text.endswith(end)
        case [(), (str(inner),), ()]:
            return lambda text: inner in text
        case _:
            return lambda text: matches(pieces, text)


def matches(pieces: list[Piece], text: str) -> bool:
    """Return True if the whole text matches."""
    at = _end(pieces[0], text, 0)
    if len(pieces) == 1:
        return at == len(text)
    end = _start(pieces[-1], text)
    if not 0 <= at <= end:
        return False
    for piece in pieces[1:-1]:
        at = _find(piece, text, at, end)
        if at < 0:
            return False
    return True


def sample(pieces: list[Piece]) -> str:
    """Return a string with ``ANY`` in place of the glob's wildcards. Any glob without ranges that matches this string
    matches everything that this glob matches."""
    return ANY.join("".join([part if isinstance(part, str) else ANY for part in piece]) for piece in pieces)


def is_plain(pieces: list[Piece]) -> bool:
    """Return True if the glob has no ranges."""
    return not any(isinstance(part, NumberRange) for piece in pieces for part in piece)


def beginning(pieces: list[Piece]) -> str:
    """Return the text with which all matching texts start."""
    first = pieces[0][:1]
    return first[0] if first and isinstance(first[0], str) else ""


def without_ranges(text: str) -> str:
    """Return the text with each range replaced by a wildcard."""
    return _RANGE.sub("*", text)


def _piece(text: str) -> Piece:
    parts: list[str | NumberRange] = []
    at = 0
    for found in _RANGE.finditer(text):
        before, after = text[at : found.start()], text[found.end() : found.end() + 1]
        if before[-1:].isdecimal() or after.isdecimal() or (not before and parts):
            raise GlobError(f"{found[0]} stands for a whole number: no digit or other range may be next to it")
        parts += [before] if before else []
        parts.append(NumberRange.parse(found[1], found[2]))
        at = found.end()
    parts += [text[at:]] if at < len(text) else []
    return tuple(parts)


def _end(piece: Piece, text: str, at: int) -> int:
    """Return where the piece that starts at a position ends; -1 if it does not match there."""
    for part in piece:
        if isinstance(part, NumberRange):
            at = part.end(text, at)
        else:
            at = at + len(part) if text.startswith(part, at) else -1
        if at < 0:
            return -1
    return at


def _start(piece: Piece, text: str) -> int:
    """Return where the piece that ends with the text starts; -1 if it does not match there."""
    at = len(text)
    for part in reversed(piece):
        if isinstance(part, NumberRange):
            at = part.start(text, at)
        else:
            at = at - len(part) if text.endswith(part, 0, at) else -1
        if at < 0:
            return -1
    return at


def _find(piece: Piece, text: str, at: int, end: int) -> int:
    """Return the end of the first occurrence in a part of the text; -1 if there is none."""
    if not piece:
        return at
    first = piece[0]
    if isinstance(first, NumberRange):
        for found in _digits.finditer(text, at, end):
            after = _end(piece, text, found.start())
            if 0 <= after <= end:
                return after
        return -1
    while (at := text.find(first, at, end)) >= 0:
        after = _end(piece, text, at)
        if 0 <= after <= end:
            return after
        at += 1
    return -1
