"""Patterns from files: an element ``@FILE`` of a list of patterns is replaced by the lines of that file.

A file holds one pattern per line; empty lines, and lines that start with ``#``, are ignored. The path of the file is
relative to the configuration file, or to the working directory if a flag names the file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawler.base.settings.load import LISTED, Source
from crawler.cli.exit_codes import UsageError
from crawler.cli.toml_lines import Place

_SIGN = "@"
_LISTS = frozenset(("include", "exclude", "store_include", "store_exclude"))
_LISTED = frozenset(LISTED.values())  # names of tables that are left out of the places of patterns


class PatternSource(Source):
    """Names the file and line of a pattern that comes from a file, and asks ``inner`` about all other values."""

    def __init__(self, inner: Source, origins: dict[Place, str | Place]) -> None:
        """``origins`` maps the place of a pattern to its origin, or to the place that it had in ``inner``."""
        super().__init__("")
        self._inner = inner
        self._origins = origins

    def at(self, *place: str | int) -> str:
        origin = self._origins.get(place, place)
        return origin if isinstance(origin, str) else self._inner.at(*origin)


class PatternFiles:
    """Replaces file names in the tables of settings with the patterns in those files."""

    def __init__(self, read: Callable[[Path], bytes]) -> None:
        """``read`` returns the content of a file, or raises OSError."""
        self._read = read
        self._origins: dict[Place, str | Place] = {}

    def source(self, inner: Source) -> Source:
        """Return the source of the settings that ``expand`` returned; ``inner`` is the source of the settings it was
        given."""
        return PatternSource(inner, self._origins) if self._origins else inner

    def expand(self, value: Any, base: Path, inner: Source, *place: str | int) -> Any:
        """Return a table, or a value in a table, in which patterns from files replace the names of these files. Paths
        are relative to ``base``. Raises UsageError."""
        if isinstance(value, dict):
            return {
                key: self.expand(each, base, inner, *place, *(() if key in _LISTED else (key,)))
                for key, each in value.items()
            }
        if not isinstance(value, list):
            return value
        if not place or place[-1] not in _LISTS or not any(map(_names_file, value)):
            return [self.expand(each, base, inner, *place, number) for number, each in enumerate(value)]
        found: list[Any] = []
        for number, each in enumerate(value):
            if _names_file(each):
                path = base / each.removeprefix(_SIGN)
                for line, pattern in self._lines(path, inner.at(*place, number)):
                    self._origins[*place, len(found)] = f"{path}, line {line}"
                    found.append(pattern)
            else:
                self._origins[*place, len(found)] = (*place, number)
                found.append(each)
        return found

    def _lines(self, path: Path, where: str) -> list[tuple[int, str]]:
        """Return the patterns of a file with their line numbers, from 1. Raises UsageError."""
        try:
            lines = self._read(path).decode("utf-8-sig").splitlines()
        except OSError as error:
            raise UsageError(f"{where}: cannot read the patterns in {path}: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"{where}: the patterns in {path} are not UTF-8: {error}") from error
        stripped = [(number, line.strip()) for number, line in enumerate(lines, 1)]
        patterns = [(number, line) for number, line in stripped if line and not line.startswith("#")]
        if not patterns:
            raise UsageError(f"{where}: {path} has no pattern")
        for number, line in patterns:
            if _names_file(line):
                raise UsageError(f"{path}, line {number}: {line!r}: a pattern file cannot name another file")
        return patterns


def _names_file(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_SIGN)
