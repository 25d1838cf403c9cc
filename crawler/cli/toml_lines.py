"""Finds the line of a table, a key or an array element in a TOML file, which ``tomllib`` does not report.

``tomllib`` must have accepted the text, because this module does not check it again. Only strings (in which brackets
and hashes have no special meaning), comments, brackets and keys matter here. The language is TOML 1.0
(https://toml.io/en/v1.0.0).
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable

from crawler.base.settings.load import Source

Place = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_TEXT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.S,
)
_BARE = re.compile(r"[^,\]}\n#]*")


def locate(text: str) -> dict[Place, int]:
    """Return place -> line number, counted from 1. ``text`` is valid TOML.

    The place of the key ``b`` in ``[a]`` is ("a", "b"), of the third element of its list ("a", "b", 2), of a key in the
    second ``[[rules]]`` ("rules", 1, "key")."""
    return _Locator(text).lines


class _Locator:
    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._arrays: dict[Place, int] = {}  # place of an array of tables -> how many of its tables have been read
        table: Place = ()
        at = self._skip(_BLANK, 0)
        while at < len(text):
            if text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(table, at)
            at = self._skip(_BLANK, at)

    def _skip(self, what: re.Pattern[str], at: int) -> int:
        found = what.match(self._text, at)
        assert found is not None, "not the TOML that tomllib read"
        return found.end()

    def _note(self, place: Place, at: int) -> None:
        self.lines.setdefault(place, bisect_right(self._starts, at))

    def _keys(self, at: int) -> tuple[list[str], int]:
        """Return a dotted key, and the position after it."""
        keys: list[str] = []
        while True:
            at = self._skip(_SPACE, at)
            end = self._skip(_KEY, at)
            word = self._text[at:end]
            keys.append(tomllib.loads(f"key = {word}")["key"] if word[0] in "\"'" else word)
            at = self._skip(_SPACE, end)
            if self._text[at] != ".":
                return keys, at
            at += 1

    def _inside(self, place: Place, keys: Iterable[str]) -> Place:
        for key in keys:
            place += (key,)
            if place in self._arrays:
                place += (self._arrays[place] - 1,)  # a key refers to the last table read so far
        return place

    def _header(self, at: int) -> tuple[Place, int]:
        of_array = self._text.startswith("[[", at)
        keys, end = self._keys(at + 1 + of_array)
        if not of_array:
            place = self._inside((), keys)
        else:
            place = (*self._inside((), keys[:-1]), keys[-1])
            number = self._arrays.get(place, 0)
            self._arrays[place] = number + 1
            self._note(place, at)
            place += (number,)
        self._note(place, at)
        return place, end + 1 + of_array

    def _pair(self, table: Place, at: int) -> int:
        keys, equals = self._keys(at)
        for length in range(1, len(keys) + 1):
            self._note(table + tuple(keys[:length]), at)
        return self._value(table + tuple(keys), self._skip(_SPACE, equals + 1))

    def _value(self, place: Place, at: int) -> int:
        match self._text[at]:
            case "[":
                return self._list(place, at + 1)
            case "{":
                at = self._skip(_BLANK, at + 1)
                while self._text[at] != "}":
                    at = self._skip(_BLANK, self._pair(place, at))
                    at = self._skip(_BLANK, at + 1) if self._text[at] == "," else at
                return at + 1
            case '"' | "'":
                return self._skip(_TEXT, at)
            case _:
                return self._skip(_BARE, at)

    def _list(self, place: Place, at: int) -> int:
        number = 0
        at = self._skip(_BLANK, at)
        while self._text[at] != "]":
            self._note((*place, number), at)
            at = self._skip(_BLANK, self._value((*place, number), at))
            at = self._skip(_BLANK, at + 1) if self._text[at] == "," else at
            number += 1
        return at + 1


class FileSource(Source):
    """The settings of a TOML file, overridden by flags. For messages, names the line or the flag that sets a value."""

    def __init__(self, name: str, text: str, flags: dict[tuple[str, str], str]) -> None:
        """``name`` and ``text`` of the file; ``flags`` maps (table, key) to a description of the flag that set it."""
        super().__init__(name)
        self._name = name
        self._toml = text
        self._flags = flags
        self._lines: dict[Place, int] | None = None

    def at(self, *place: str | int) -> str:
        flag = self._flags.get((str(place[0]), str(place[1]))) if len(place) > 1 else None
        if flag is not None:
            return flag
        if self._lines is None:
            self._lines = locate(self._toml)
        for length in range(len(place), 0, -1):
            line = self._lines.get(place[:length])
            if line is not None:
                return f"{self._name}, line {line}"
        return self._name
