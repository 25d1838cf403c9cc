"""The edges of the link graph, as rows of JSON: one a line, distinct per page."""

from __future__ import annotations

from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

REDIRECT = "redirect"
HEADER = "header"


class Edge(NamedTuple):
    """A link of a page. ``kind`` is the element that it is in, or ``REDIRECT`` or ``HEADER``; ``text`` is what the
    element says, ``rel`` its attribute. ``why``: why it is not followed; None if it is. ``score``: how promising it is,
    0 to 1, as code of the user says."""

    to: str
    kind: str
    text: str = ""
    rel: str = ""
    why: str | None = None
    score: float | None = None


def edge_rows(href: str, edges: Iterable[Edge]) -> bytes:
    """The rows of the edges of the page with that href."""
    head = f'{{"from":{quoted(href)},"to":'
    rows: list[str] = []
    for to, kind, text, rel, why, score in edges:
        row = f'{head}{quoted(to)},"kind":"{kind}"'
        if text:
            row += f',"text":{quoted(text)}'
        if rel:
            row += f',"rel":{quoted(rel)}'
        if score is not None:
            row += f',"score":{round(score, 6)}'
        rows.append(f'{row},"in_scope":true}}\n' if why is None else f'{row},"in_scope":false,"why":"{why}"}}\n')
    return "".join(rows).encode("ascii")
