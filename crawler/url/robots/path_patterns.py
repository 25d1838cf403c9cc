"""The patterns of Allow and Disallow lines, stored compactly and matched in bounded time (RFC 9309, 2.2.2 and 2.2.3).

A pattern matches the start of a path with its query; ``*`` matches any characters and a final ``$`` the end. The
longest matching pattern wins, and Allow wins a tie.

Patterns without ``*`` are stored in sorted order as one text. One binary search finds the longest match, however many
there are. A pattern with ``*`` is matched piece by piece from left to right without backtracking: matching each piece
as far left as possible leaves the most room for later pieces. These patterns are tried one after another, so they share
a budget.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

# The maximum cost, in passes over a path, of matching all patterns with a ``*``. Each piece after a ``*`` costs 1, plus
# 1 for each 16 characters, plus 1 for each repetition of its own start: its search may examine a character that many
# times. 10,000 allow 3,000 to 5,000 ordinary patterns and, for a hostile path of 2,048 characters, take some 15 ms.
STAR_BUDGET = 10_000

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_HEX = "0123456789ABCDEFabcdef"
# The two hexadecimal digits of a triplet -> its comparable form.
_TRIPLETS = {
    high + low: chr(int(high + low, 16)) if int(high + low, 16) in _UNRESERVED else f"%{high}{low}".upper()
    for high in _HEX
    for low in _HEX
}
# The comparable form of a byte outside triplets. ``*`` and ``$`` in a path are ordinary characters.
_BYTES = [chr(each) if each in _UNRESERVED + b"!%&'()+,/:;=?@[]" else f"%{each:02X}" for each in range(256)]
_to_change = re.compile(r"[^A-Za-z0-9\-._~!&'()+,/:;=?@\[\]]").search


def comparable(text: str) -> str:
    """Return a path, or a piece of a pattern, in the ASCII form used for comparison. ``text`` is in Latin-1, one
    character per byte.

    Triplets of unreserved characters are decoded, and other triplets are written in upper case: ``%61`` is ``a``, and
    ``%2F`` is not a slash. ``*`` and ``$`` become triplets, as a pattern would write them.
    """
    if _to_change(text) is None:
        return text
    first, *rest = text.split("%")
    parts = [_quote(first)]
    for part in rest:
        triplet = _TRIPLETS.get(part[:2])
        parts += ("%", _quote(part)) if triplet is None else (triplet, _quote(part[2:]))
    return "".join(parts)


def _quote(text: str) -> str:
    return text if _to_change(text) is None else "".join([_BYTES[each] for each in text.encode("latin-1")])


class Patterns:
    """The patterns of one crawler. ``size`` is their memory in bytes. ``cut``: some were dropped because they exceeded
    the budget."""

    __slots__ = ("_plain", "_stars", "cut", "size")

    def __init__(self, rules: Iterable[tuple[bool, str]], star_budget: int = STAR_BUDGET) -> None:
        """``rules``: for each line, True for Allow, and its pattern as written, in Latin-1."""
        plain: dict[str, int] = {}
        starred: dict[str, int] = {}
        self.cut = False
        for allow, written in rules:
            end = len(written) - written.endswith("$")
            octets, text = (len(written), written) if _to_change(written, 0, end) is None else _compile(written)
            if text[:1] not in "/*":  # matches no path
                continue
            kept = starred if "*" in text else plain
            before = kept.get(text)
            if before is None and kept is starred:
                star_budget -= _cost(text)
                if star_budget < 0:
                    self.cut = True
                    break
            kept[text] = max(before or 0, 2 * octets + allow)
        self._plain = _Sorted(plain)
        self._stars = _by_first_piece(starred)
        self.size = sys.getsizeof(self) + self._plain.size + _size_of(self._stars)

    def __bool__(self) -> bool:
        return bool(self._plain or self._stars)

    def allow(self, path: str) -> bool:
        """Return True if a path with its query may be fetched."""
        weight = self.weight(path)
        return not weight or bool(weight & 1)

    def weight(self, path: str) -> int:
        """Return twice the octets of the longest pattern that matches, plus 1 for Allow; 0 if none does."""
        path = comparable(path if path.isascii() else path.encode("utf-8", "replace").decode("latin-1")) + "$"
        weight = self._plain.longest(path)
        for first, rests, weights in self._stars:
            if path.startswith(first):
                for rest, other in zip(rests, weights, strict=True):
                    if other <= weight:
                        break
                    if _in_order(rest.split("*"), path, len(first)):
                        weight = other
                        break
        return weight


# Patterns with ``*`` that share their first piece: that piece, the rest after its ``*``, and their weights. The
# heaviest come first, so the first match decides.
_Alike = tuple[str, tuple[str, ...], "array[int]"]


def _by_first_piece(starred: dict[str, int]) -> tuple[_Alike, ...]:
    """Return the patterns with ``*``, grouped by their first piece."""
    alike: dict[str, list[tuple[int, str]]] = {}
    for text, weight in starred.items():
        first, _, rest = text.partition("*")
        alike.setdefault(first, []).append((weight, rest))
    found = list[_Alike]()
    for first, rests in alike.items():
        rests.sort(reverse=True)
        found.append((first, tuple(rest for _, rest in rests), array("I", [weight for weight, _ in rests])))
    return tuple(found)


def _size_of(alike: tuple[_Alike, ...]) -> int:
    return sys.getsizeof(alike) + sum(sum(map(sys.getsizeof, (each, *each, *each[1]))) for each in alike)


def _compile(written: str) -> tuple[int, str]:
    """Return the length of a pattern, by which the longest match is chosen, and the text to compare, in which ``*`` and
    ``$`` have only their special meaning. A final ``*`` is left out, and consecutive ``*`` are merged."""
    ends = written.endswith("$")
    body = written[:-1] if ends else written
    first, *rest = [comparable(piece) for piece in body.split("*")]
    octets = len(first) + sum(map(len, rest)) + len(rest) + ends - 2 * body.count("$")  # each ``$`` is a triplet here
    if ends and rest:
        rest[-1] += "$"
    elif ends:
        first += "$"
    return octets, "*".join([first, *filter(None, rest)])


def _cost(text: str) -> int:
    return sum(1 + len(piece) // 16 + _repeats(piece) for piece in text.split("*")[1:])


def _repeats(piece: str) -> int:
    """Return the maximum number of times that a part of the piece is repeated at its start.

    A search re-examines text that resembles the start of the piece. Without repeats, such places cannot be close
    together.
    """
    most, borders, border = 1, [0], 0  # a border is both a prefix and a suffix (Knuth, Morris, Pratt)
    for end in range(1, len(piece)):
        while border and piece[end] != piece[border]:
            border = borders[border - 1]
        border += piece[end] == piece[border]
        borders.append(border)
        most = max(most, (end + 1) // (end + 1 - border))
    return most


def _in_order(pieces: list[str], path: str, at: int) -> bool:
    """Return True if the pieces occur in the path in this order from ``at`` on, with anything between them."""
    for piece in pieces:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


class _Sorted:
    """Distinct texts in order, each with a weight. In memory, a text takes 12 bytes more than its characters."""

    __slots__ = ("_best", "_ends", "_parents", "_text")

    def __init__(self, weights: dict[str, int]) -> None:
        texts = sorted(weights)
        self._text = "".join(texts)
        self._ends = array("I", accumulate(map(len, texts), initial=0))
        parents, best = [-1] * len(texts), [weights[text] for text in texts]
        nested: list[int] = []
        for number, text in enumerate(texts):
            while nested and not text.startswith(texts[nested[-1]]):
                nested.pop()
            if nested:
                parents[number] = parent = nested[-1]
                best[number] = max(best[number], best[parent])
            nested.append(number)
        self._parents = array("i", parents)  # by text: the number of the longest other text that is its prefix, or -1
        self._best = array("I", best)  # for each text: the greatest weight of the text and its prefixes

    def __len__(self) -> int:
        return len(self._parents)

    @property
    def size(self) -> int:
        """The memory in bytes."""
        return sum(map(sys.getsizeof, (self, self._text, self._ends, self._parents, self._best)))

    def longest(self, path: str) -> int:
        """Return the greatest weight of the texts that are prefixes of the path; 0 if there is none.

        Let P be the longest of these prefixes. All texts sorted between P and the path start with P. So the last text
        that is not after the path either is P or has P among its prefixes.
        """
        number = bisect_right(range(len(self)), path, key=self._at) - 1
        while number >= 0 and not path.startswith(self._at(number)):
            number = self._parents[number]
        return self._best[number] if number >= 0 else 0

    def _at(self, number: int) -> str:
        return self._text[self._ends[number] : self._ends[number + 1]]
