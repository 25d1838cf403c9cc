"""A plot of bars beside each other, as SVG: one row a way, one panel a measure, each on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_ROW = 24
_BAR = 14
_LABELS = 170  # width of the names
_PANEL = 250
_FIGURE = 70  # room for the number behind the longest bar
_GAP = 24
_TOP = 88
_BOTTOM = 22


@dataclass(frozen=True, slots=True)
class Panel:
    """A measure: a bar for each row, with its figure as text. A value of 0 has no bar."""

    title: str
    values: Sequence[float]
    figures: Sequence[str]
    colour: str


def bar_chart(title: str, subtitle: str, names: Sequence[str], panels: Sequence[Panel]) -> str:
    """The text of an SVG file. Raises ValueError when a panel has not a value and a figure for each name."""
    width = _LABELS + len(panels) * (_PANEL + _FIGURE + _GAP)
    height = _TOP + len(names) * _ROW + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#222">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="600">{escape(title)}</text>',
        f'<text x="12" y="42" fill="#666">{escape(subtitle)}</text>',
    ]
    for row, name in enumerate(names):
        y = _TOP + row * _ROW
        if row % 2:
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{_ROW}" fill="#f5f6f8"/>')
        parts.append(f'<text x="{_LABELS - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
    for number, panel in enumerate(panels):
        parts += _panel(panel, _LABELS + number * (_PANEL + _FIGURE + _GAP), len(names))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, left: int, rows: int) -> list[str]:
    if not len(panel.values) == len(panel.figures) == rows:
        raise ValueError(f"the panel {panel.title!r} has {len(panel.values)} values for {rows} rows")
    lowest, highest = _decades(panel.values)
    bottom = _TOP + rows * _ROW
    parts = [f'<text x="{left}" y="{_TOP - 20}" font-weight="600">{escape(panel.title)}</text>']
    for decade in range(lowest, highest + 1):
        x = left + _PANEL * (decade - lowest) / (highest - lowest)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{bottom}" stroke="#d5d8dd"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{_TOP - 7}" font-size="10" fill="#666" text-anchor="middle">{_tick(decade)}</text>'
        )
    for row, (value, figure) in enumerate(zip(panel.values, panel.figures, strict=True)):
        y = _TOP + row * _ROW
        length = _PANEL * (math.log10(value) - lowest) / (highest - lowest) if value > 0 else 0.0
        parts.append(
            f'<rect x="{left}" y="{y + (_ROW - _BAR) / 2:g}" width="{length:.1f}" height="{_BAR}" rx="2" '
            f'fill="{panel.colour}"/>'
        )
        parts.append(f'<text x="{left + length + 5:.1f}" y="{y + 16}">{escape(figure)}</text>')
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around all values above 0, at least one apart; the smallest value has a bar to be seen."""
    logs = [math.log10(value) for value in values if value > 0] or [0.0]
    lowest = math.ceil(min(logs)) - 1
    return lowest, max(math.ceil(max(logs)), lowest + 1)


def _tick(decade: int) -> str:
    return f"{10**decade:,}" if 0 <= decade <= 6 else f"{10.0**decade:g}"
