"""HTML whose text is escaped by construction: only values returned by these functions are markup, all other text is
escaped.

Titles, URLs and messages come from the web. Characters that are not printable, or that change the direction of text,
are shown as escapes.
"""

from __future__ import annotations

import html

from crawler.base.printable import printable

_VOID = frozenset({"meta"})


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


Child = str | int | None


def text(value: Child) -> Markup:
    """Return the HTML of a value: markup unchanged, text escaped, nothing for None, numbers with commas."""
    if value is None:
        return Markup()
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(f"{value:,}" if isinstance(value, int) else printable(value)))


def element(tag: str, /, *children: Child, **attributes: str | int | float | None) -> Markup:
    """Return an element. In an attribute's name, a trailing ``_`` is dropped and others become hyphens; the value None
    omits it."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Return the concatenated HTML of the children."""
    return Markup("".join(map(text, children)))
