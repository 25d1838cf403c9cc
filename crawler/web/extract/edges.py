"""The edges of the link graph as rows of JSON, one per line, distinct per page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

REDIRECT = "redirect"
HEADER = "header"


class Facts(NamedTuple):
    """The attributes of an edge besides its text. ``kind`` is the link's element, or ``REDIRECT``
    or ``HEADER``; ``rel`` is an attribute of the element. ``why`` is the reason why the link is not followed, or None.
    ``score``, 0 to 1, is the link's priority returned by user code."""

    kind: str = "a"
    rel: str = ""
    why: str | None = None
    score: float | None = None


USUAL = Facts()

# A link of a page: its target URL, its text, and its facts (the object USUAL itself if they equal it). A plain tuple,
# because pages have dozens of links, and C code creates and unpacks all tuples of a page at once.
Edge = tuple[str, str, Facts]

_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')


@lru_cache(maxsize=256)
def facts_of(kind: str, rel: str, why: str | None = None) -> Facts:
    """Return a shared object with these facts: pages have many edges, but few distinct combinations of facts."""
    return Facts(kind, rel, why)


def edge_rows(href: str, edges: Sequence[Edge]) -> bytes:
    """Return the rows of the edges of the page with this ``href``."""
    if not edges:
        return b""
    head = f'{{"from":{quoted(href)},"to":"'
    to_all, text_all, facts_all = zip(*edges, strict=True)
    if not _is_plain("".join(text_all)):
        text_all = tuple([text if text.isalnum() and text.isascii() else quoted(text)[1:-1] for text in text_all])
    if not _is_plain("".join(to_all)):
        to_all = tuple([quoted(to)[1:-1] for to in to_all])
    ends = _behind_alike if {None}.issuperset([facts.score for facts in facts_all]) else _behind
    rows = [
        f'{to}","kind":"a","text":"{text}","in_scope":true}}\n'
        if text and facts is USUAL
        else f'{to}","kind":"{facts.kind}","text":"{text}"{ends(facts)}'
        if text
        else f'{to}","kind":"{facts.kind}"{ends(facts)}'
        for to, text, facts in zip(to_all, text_all, facts_all, strict=True)
    ]
    return (head + head.join(rows)).encode("ascii")


def _is_plain(text: str) -> bool:
    """Return True if no character of the text needs escaping in a JSON string. Checking all strings of a page together
    takes a tenth of the time of quoting them one by one."""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def _behind(facts: Facts) -> str:
    """Return the end of a row, after the text of the edge."""
    _, rel, why, score = facts
    said = f',"rel":{quoted(rel)}' if rel else ""
    if score is not None:
        said += f',"score":{round(score, 6)}'
    return f'{said},"in_scope":true}}\n' if why is None else f'{said},"in_scope":false,"why":"{why}"}}\n'


_behind_alike = lru_cache(maxsize=256)(_behind)  # only without a score: 1 and 1.0 are equal keys with different texts
