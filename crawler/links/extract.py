"""Extracts the links of a page; Lexbor parses the HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.links.encoding import python_codec, sniff_encoding
from crawler.links.refresh import refresh_target
from crawler.links.tags import TREE_BYTES, link_tags
from crawler.settings import LinkSettings

METAS_MOST = 64  # of one page
META_CHARACTERS_MOST = 1_024  # of a content

_SPACE = " \t\n\f\r"
_TAGS_AT_ONCE = 4096  # of a large page: bounds the size of the tree, about 0.5 KB a tag
_RELATIONS = {"canonical": "canonical", "next": "next", "prev": "next", "alternate": "alternate"}
_PAGE_TYPES = frozenset(("", "text/html", "application/xhtml+xml"))


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The links of a page.

    ``base`` is the first ``base[href]`` as written, or None. ``hrefs`` are distinct, in document order,
    without surrounding ASCII white space, otherwise as written; they contain no lone surrogates.
    ``nofollow``: the robots meta element of the page asks not to follow its links; ``hrefs`` is then empty.
    ``truncated``: the page has more than ``LinkSettings.max_links``. ``metas`` are the name and content of each
    ``meta`` element that has both.
    """

    base: str | None
    hrefs: list[str]
    nofollow: bool
    encoding: str
    truncated: bool
    metas: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Found:
    """What was read of a page so far."""

    settings: LinkSettings
    base: str | None = None
    hrefs: dict[str, None] = field(default_factory=dict)
    metas: list[tuple[str, str]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether there is one more link than the limit."""
        return len(self.hrefs) > self.settings.max_links

    def read(self, parser: LexborHTMLParser) -> None:
        """Add what the tree holds."""
        for node in parser.tags("meta"):
            self._meta(node)
        for node in parser.css("[href],[src]" if self._frames else "[href]"):
            self._element(node)
            if self.full:
                break

    @property
    def _frames(self) -> bool:
        return not _FRAMES.isdisjoint(self.settings.kinds)

    def _element(self, node: LexborNode) -> None:
        attributes = node.attrs
        match node.tag:
            case "a" | "area":
                href = attributes.get("href")
                if self.settings.respect_rel_nofollow and "nofollow" in (attributes.get("rel") or "").lower().split():
                    return
            case "link":
                href = attributes.get("href") if self._leads_on(node) else None
            case "base":
                href = None
                if self.base is None and (own := attributes.get("href")) is not None:
                    self.base = own.strip(_SPACE)
            case "iframe" | "frame" as kind:
                href = attributes.get("src") if kind in self.settings.kinds else None
            case _:
                return
        if href is not None:
            self.hrefs[href.strip(_SPACE)] = None

    def _leads_on(self, node: LexborNode) -> bool:
        """Whether a ``link`` element names a page."""
        attributes = node.attrs
        kinds = {_RELATIONS.get(relation) for relation in (attributes.get("rel") or "").lower().split()}
        if kinds.isdisjoint(self.settings.kinds):
            return False
        return (attributes.get("type") or "").partition(";")[0].strip(_SPACE).lower() in _PAGE_TYPES

    def _meta(self, node: LexborNode) -> None:
        attributes = node.attrs
        content = attributes.get("content")
        if content is None:
            return
        name = attributes.get("name")
        if name is not None and len(self.metas) < METAS_MOST:
            self.metas.append((name.strip(_SPACE)[:META_CHARACTERS_MOST], content[:META_CHARACTERS_MOST]))
        if "refresh" in self.settings.kinds and (attributes.get("http-equiv") or "").lower() == "refresh":
            target = refresh_target(content)
            if target is not None:
                self.hrefs[target] = None


_FRAMES = frozenset(("iframe", "frame"))


def extract_links(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks:
    """The outlinks of an HTML page; ``charset`` is the label in its Content-Type header.

    It accepts any bytes. Hrefs that lead to the page itself (empty, or only a fragment) are left out, unless a
    ``base`` gives them another meaning.
    """
    encoding = sniff_encoding(body, charset)
    # Lexbor reads UTF-8 and replaces other bytes. So convert other encodings to UTF-8.
    html = body if encoding == "utf-8" else body.decode(python_codec(encoding), "replace").encode()
    found = _Found(settings)
    for piece in _pieces(html):
        found.read(LexborHTMLParser(piece))
    hrefs, metas = found.hrefs, tuple(found.metas)
    if settings.respect_meta_robots and _robots_say_nofollow(metas):
        return PageLinks(found.base, [], True, encoding, False, metas)
    if found.base is None:
        for own in [href for href in hrefs if not href or href[0] == "#"]:
            del hrefs[own]
    limit = settings.max_links
    return PageLinks(found.base, list(islice(hrefs, limit)), False, encoding, len(hrefs) > limit, metas)


def _pieces(html: bytes) -> Iterator[bytes]:
    if len(html) <= TREE_BYTES:
        yield html
        return
    tags = link_tags(html)
    while tag_group := list(islice(tags, _TAGS_AT_ONCE)):
        # Links do not nest: closing each keeps the tree flat.
        yield b"</a>".join(dict.fromkeys(tag_group))


def _robots_say_nofollow(metas: tuple[tuple[str, str], ...]) -> bool:
    for name, content in metas:
        if name.lower() == "robots":
            wishes = {wish.strip(_SPACE) for wish in content.lower().split(",")}
            if not wishes.isdisjoint(("nofollow", "none")):
                return True
    return False
