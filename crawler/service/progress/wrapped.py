"""Lays out figures side by side, as many per line as fit."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

_GAP = 3  # characters between two figures


def wrapped(figures: Iterable[Text], width: int) -> Text:
    """Return the figures in lines of at most ``width`` characters, broken only between figures."""
    text, left = Text(), width
    for figure in figures:
        needs = figure.cell_len
        if text and needs + _GAP > left:
            text.append("\n")
            left = width
        elif text:
            text.append(" " * _GAP)
            left -= _GAP
        text.append_text(figure)
        left -= needs
    return text
