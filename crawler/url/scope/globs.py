"""Globs with number ranges, matched in time linear in the text.

``*`` matches any run of characters. ``{1..50}`` matches a number from 1 to 50: a whole run of decimal digits, with or
without leading zeros. A glob is split into pieces at its wildcards. The start of a piece determines its end, because a
range takes as many digits as possible, and a later start never ends earlier. The regular expression of a glob can
therefore match each piece at its first occurrence only (an atomic group).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

ANY = "\0"  # stands for anything a wildcard matches; never occurs in a URL
_DIGITS_MOST = 18  # maximum digits of a bound

_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")

Test = Callable[[str], bool]


class GlobError(ValueError):
    """A glob that no text can match; the message gives the reason to the user."""


class NumberRange(Struct, frozen=True):
    """A range of whole numbers, as a regular expression."""

    expression: str

    @classmethod
    def parse(cls, least: str, most: str) -> NumberRange:
        """Parse the bounds. Raises GlobError."""
        if max(len(least), len(most)) > _DIGITS_MOST:
            raise GlobError(f"a bound of a number range has at most {_DIGITS_MOST} digits")
        low, high = int(least), int(most)
        if low > high:
            raise GlobError(f"the number range {least}..{most} is empty: the smaller number must come first")
        lengths = range(len(str(low)), len(str(high)) + 1)
        spans = [_span(str(max(low, 10 ** (n - 1) if n > 1 else 0)), str(min(high, 10**n - 1))) for n in lengths]
        return cls(rf"(?<![0-9])0*(?:{'|'.join(spans)})(?![0-9])")


def _span(low: str, high: str) -> str:
    """Return an expression for the numbers from ``low`` to ``high``, which have the same number of digits."""
    more = len(low) - 1
    if not low.strip("0") and not high.strip("9"):
        return f"[0-9]{{{more + 1}}}"
    if low[0] == high[0]:
        return low[0] + _span(low[1:], high[1:])
    first, last = low[0] + _span(low[1:], "9" * more), high[0] + _span("0" * more, high[1:])
    return f"(?:{first}|{last}|(?![{low[0]}{high[0]}])[{low[0]}-{high[0]}][0-9]{{{more}}})"


Piece = tuple[str | NumberRange, ...]  # a part without wildcards; a string stands for itself


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
    first, *others = ("".join(map(_expression, piece)) for piece in pieces)
    rest = "".join(f"(?>.*?{piece})" for piece in others[:-1]) + f".*{others[-1]}" if others else ""
    match = re.compile(first + rest, re.DOTALL).fullmatch
    return lambda text: match(text) is not None


def _expression(part: str | NumberRange) -> str:
    return re.escape(part) if isinstance(part, str) else part.expression


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
