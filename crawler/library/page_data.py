"""What the program says of a page, as its record can keep it."""

from __future__ import annotations

from typing import Any

from crawler.engine.hooks.answers import copy_of


def data_of(data: dict[str, Any], url: str) -> dict[str, Any]:
    """A copy of the ``data`` of the page, as its record keeps it. Raises TypeError and ValueError, with the URL and the
    key, if JSON cannot express it."""
    try:
        return copy_of(data)
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"data of {url} has what JSON cannot express{_place(data)}: {error}") from error


def _place(data: dict[Any, Any]) -> str:
    """The first key whose value JSON cannot express, for a message."""
    for key, value in data.items():
        try:
            copy_of({key: value})
        except (TypeError, ValueError, RecursionError):
            return f" in {ascii(key)[:100]}"
    return ""
