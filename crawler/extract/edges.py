"""The edges of the link graph, as rows of JSON: one a line, distinct per page."""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

REDIRECT = "redirect"
HEADER = "header"


class Facts(NamedTuple):
    """What there is to tell of an edge besides its text. ``kind`` is the element that the link is in, or ``REDIRECT``
    or ``HEADER``; ``rel`` is the attribute of the element. ``why``: why the link is not followed; None if it is.
    ``score``: how promising it is, 0 to 1, as code of the user says."""

    kind: str = "a"
    rel: str = ""
    why: str | None = None
    score: float | None = None


USUAL = Facts()

# A link of a page: the URL that it leads to, what its element says, and the rest, which is USUAL itself if it can be.
# A plain tuple, since pages have dozens: C makes and takes apart all those of a page at once.
Edge = tuple[str, str, Facts]

_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')


def edge_rows(href: str, edges: Sequence[Edge]) -> bytes:
    """The rows of the edges of the page with that href."""
    if not edges:
        return b""
    head = f'{{"from":{quoted(href)},"to":"'
    to_all, text_all, _ = zip(*edges, strict=True)
    if not _is_plain("".join(to_all + text_all)):
        edges = [(quoted(to)[1:-1], quoted(text)[1:-1], facts) for to, text, facts in edges]
    rows = [
        f'{to}","kind":"a","text":"{text}","in_scope":true}}\n'
        if text and facts is USUAL
        else f'{to}",{_members(text, facts)}}}\n'
        for to, text, facts in edges
    ]
    return (head + head.join(rows)).encode("ascii")


def _is_plain(text: str) -> bool:
    """Whether each character of the text stands for itself in a string of JSON. Asking this of all strings of a page at
    once takes a tenth of what it takes to quote one after the other."""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def _members(text: str, facts: Facts) -> str:
    """All but the ends of an edge; ``text`` is quoted, but for the quotation marks."""
    kind, rel, why, score = facts
    row = f'"kind":"{kind}","text":"{text}"' if text else f'"kind":"{kind}"'
    if rel:
        row += f',"rel":{quoted(rel)}'
    if score is not None:
        row += f',"score":{round(score, 6)}'
    return f'{row},"in_scope":true' if why is None else f'{row},"in_scope":false,"why":"{why}"'
