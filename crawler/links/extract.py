"""Extracts the links of a page; Lexbor parses the HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from selectolax.lexbor import LexborHTMLParser

from crawler.links.encoding import python_codec, sniff_encoding
from crawler.links.tags import TREE_BYTES, link_tags
from crawler.settings import LinkSettings

_SPACE = " \t\n\f\r"
_TAGS_AT_ONCE = 4096  # of a large page: bounds the size of the tree, about 0.5 KB a tag


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The links of a page.

    ``base`` is the first ``base[href]`` as written, or None. ``hrefs`` are distinct, in document order,
    without surrounding ASCII white space, otherwise as written; they contain no lone surrogates.
    ``nofollow``: the robots meta element of the page asks not to follow its links; ``hrefs`` is then empty.
    ``truncated``: the page has more than ``LinkSettings.max_links``.
    """

    base: str | None
    hrefs: list[str]
    nofollow: bool
    encoding: str
    truncated: bool


def extract_links(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks:
    """The outlinks of an HTML page; ``charset`` is the label in its Content-Type header.

    It accepts any bytes. Hrefs that lead to the page itself (empty, or only a fragment) are left out, unless a
    ``base`` gives them another meaning.
    """
    encoding = sniff_encoding(body, charset)
    # Lexbor reads UTF-8 and replaces other bytes. So convert other encodings to UTF-8.
    html = body if encoding == "utf-8" else body.decode(python_codec(encoding), "replace").encode()
    base: str | None = None
    found: dict[str, None] = {}
    limit = settings.max_links
    for piece in _pieces(html):
        parser = LexborHTMLParser(piece)
        lowered = piece.lower()
        if settings.respect_meta_robots and b"robots" in lowered and _robots_say_nofollow(parser):
            return PageLinks(base, [], True, encoding, False)
        if base is None and b"<base" in lowered:
            base = _base(parser)
        if len(found) <= limit:
            _add_hrefs(found, parser, settings)
    if base is None:
        for own in [href for href in found if not href or href[0] == "#"]:
            del found[own]
    return PageLinks(base, list(islice(found, limit)), False, encoding, len(found) > limit)


def _pieces(html: bytes) -> Iterator[bytes]:
    if len(html) <= TREE_BYTES:
        yield html
        return
    tags = link_tags(html)
    while tag_group := list(islice(tags, _TAGS_AT_ONCE)):
        # Links do not nest: closing each keeps the tree flat.
        yield b"</a>".join(dict.fromkeys(tag_group))


def _add_hrefs(found: dict[str, None], parser: LexborHTMLParser, settings: LinkSettings) -> None:
    """Add to ``found`` until it holds one more than the limit."""
    for node in parser.css("a[href],area[href]"):
        attributes = node.attrs
        if settings.respect_rel_nofollow and "nofollow" in (attributes.get("rel") or "").lower().split():
            continue
        found[(attributes.get("href") or "").strip(_SPACE)] = None
        if len(found) > settings.max_links:
            break


def _base(parser: LexborHTMLParser) -> str | None:
    node = parser.css_first("base[href]")
    return None if node is None else (node.attrs.get("href") or "").strip(_SPACE)


def _robots_say_nofollow(parser: LexborHTMLParser) -> bool:
    for node in parser.css("meta[name][content]"):
        attributes = node.attrs
        if (attributes.get("name") or "").strip(_SPACE).lower() == "robots":
            wishes = {wish.strip(_SPACE) for wish in (attributes.get("content") or "").lower().split(",")}
            if not wishes.isdisjoint(("nofollow", "none")):
                return True
    return False
