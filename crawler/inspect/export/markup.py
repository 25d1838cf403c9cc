"""HTML whose text is escaped by construction: only what these functions return is markup, every other text is text.

Titles, URLs and messages come from the web. Characters that cannot be printed, or that turn the direction of reading,
are shown as escapes.
"""

from __future__ import annotations

import html

from crawler.base.printable import printable

_VOID = frozenset({"meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | None


def text(value: Child) -> Markup:
    """The HTML of a value: markup as it is, text escaped, nothing for None, numbers with commas."""
    if value is None:
        return Markup()
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(f"{value:,}" if isinstance(value, int) else printable(value)))


def element(tag: str, /, *children: Child, **attributes: str | int | float | None) -> Markup:
    """An element. Of an attribute's name, a last ``_`` is dropped and others become hyphens; None leaves it out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Children after one another."""
    return Markup("".join(map(text, children)))
