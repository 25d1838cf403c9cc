"""Checks the program's data about a page before it is stored in the page's record."""

from __future__ import annotations

from typing import Any

from crawler.engine.hooks.answers import copy_of


def data_of(data: dict[str, Any], url: str) -> dict[str, Any]:
    """Return a copy of the page's ``data`` in the form of its record. Raises TypeError and ValueError, which name the
    URL and the key, if JSON cannot represent it."""
    try:
        return copy_of(data)
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"data of {url} has a value that JSON cannot represent{_place(data)}: {error}") from error


def _place(data: dict[Any, Any]) -> str:
    """Return the first key whose value JSON cannot represent, for a message."""
    for key, value in data.items():
        try:
            copy_of({key: value})
        except (TypeError, ValueError, RecursionError):
            return f" in {ascii(key)[:100]}"
    return ""
