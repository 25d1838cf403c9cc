"""The links of a Markdown page (RFC 7763).

``markdown_it`` parses the page as CommonMark. Each text that may have links becomes HTML, whose links are read as in
any page, so the link settings apply to both, and to HTML tags in Markdown. A reference that is defined but not used is
a link, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.encoding import as_utf8, sniff_xml_encoding
from crawler.web.links.extract import PageLinks, closed, extract_links

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

PIECE = 256 * 1024  # characters that are parsed at a time, which takes 50 times as many bytes of memory

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.M | re.S)
_TITLE = re.compile("^title:(.+)", re.M)


def is_markdown(content_type: str | None) -> bool:
    """Return whether the type is Markdown."""
    return content_type == "text/markdown"


def decoded(body: bytes, charset: str | None) -> tuple[str, str]:
    """Return Markdown without its byte order mark, and its encoding: from the mark or the Content-Type header, or
    UTF-8."""
    encoding = sniff_xml_encoding(body[:4], charset)
    return as_utf8(body, encoding).decode().removeprefix("\ufeff"), encoding


def markdown_links(
    body: bytes, charset: str | None, settings: LinkSettings, goes_on: Callable[[], bool] = lambda: True
) -> PageLinks:
    """Return the outlinks of a page, and its title: its first heading of level 1, or else the title in its front
    matter. ``goes_on`` is called before each text; False stops reading, and ``cut`` states that."""
    text, encoding = decoded(body, charset)
    text = text.replace("\r\n", "\n")
    front = _FRONT_MATTER.match(text)
    page: dict[str, Any] = {"title": "", "cut": None, "targets": set()}
    html = "\n".join(_html(text if front is None else text[front.end() :], page, goes_on))
    stated = None if front is None else _TITLE.search(front[1])
    title = page["title"] or ("" if stated is None else stated[1].strip().strip("\"'"))
    links = extract_links(f"<title>{escape(title)}</title>{html}".encode(), "utf-8", settings)
    return replace(links, encoding=encoding, cut=links.cut or page["cut"])


@cache
def markdown_parsers() -> tuple[MarkdownIt, MarkdownIt]:
    """Return two parsers: one finds the texts in a page, the other parses one text. The first call is slow."""
    from markdown_it import MarkdownIt  # noqa: PLC0415, few crawls need it

    texts = MarkdownIt("commonmark")
    for kind, render in (("link_open", _target), ("image", _target), ("html_inline", _tags)):
        texts.add_render_rule(kind, render)
    return MarkdownIt("commonmark").disable("inline"), texts


def _html(text: str, page: dict[str, Any], goes_on: Callable[[], bool]) -> Iterator[str]:
    """Yield HTML with the links. The parsers store the page's references in ``page``."""
    blocks, texts = markdown_parsers()
    for at, piece in _pieces(text):
        heading = False
        for token in blocks.parse(piece, page):
            if token.type == "html_block":
                yield _tags(None, [token], 0, None, page)
            elif token.type == "inline" and (heading or "[" in token.content or "<" in token.content):
                if not goes_on():
                    page["cut"] = f"only its first {at} characters were read; more would take too long"
                    return
                (read,) = texts.parseInline(token.content.replace("\n", " "), page)
                yield f"<p>{texts.renderer.render([read], texts.options, page)}"
                if heading:
                    page["title"] = "".join(part.content for part in read.children or () if part.type != "html_inline")
            heading = token.type == "heading_open" and token.tag == "h1" and not page["title"]
    for reference in page.get("references", {}).values():
        if page["targets"].isdisjoint((("a", reference["href"]), ("img", reference["href"]))):
            yield f'<a href="{escape(reference["href"])}"></a>'


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Cut a page into pieces, before a heading if possible, and yield the start of each piece and the piece. Later
    pieces can use the reference definitions of earlier ones."""
    at = 0
    while at < len(text):
        end = at + PIECE
        if end < len(text):
            cut = text.rfind("\n\n#", at, end)
            end = (text.rfind("\n", at, end) if cut < 0 else cut + 1) + 1 or end
        yield at, text[at:end]
        at = end


def _target(_: object, tokens: Sequence[Token], index: int, options: object, page: dict[str, Any]) -> str:
    """Return the tag of a link or an image. Each target is returned only once, because a page can repeat a long target
    any number of times."""
    token = tokens[index]
    attribute = "href" if token.tag == "a" else "src"
    target = token.tag, str(token.attrs[attribute])
    if target in page["targets"]:
        return f"<{token.tag}>"
    page["targets"].add(target)
    return f'<{token.tag} {attribute}="{escape(target[1])}">'


def _tags(_: object, tokens: Sequence[Token], index: int, options: object, page: dict[str, Any]) -> str:
    """Return the link tags in HTML, whose elements may never end."""
    from crawler.web.links.scan_tags import link_tags  # noqa: PLC0415, its patterns are large, and few pages need them

    return b"".join(map(closed, link_tags(tokens[index].content.encode(), embedded=True))).decode()
