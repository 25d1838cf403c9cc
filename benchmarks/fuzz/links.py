"""The links of a page: small as Lexbor and html5lib see them, and the same where the page is large.

A page above a certain size is not parsed into a tree. So each page is also read with padding behind it, which must
change nothing.
"""

from __future__ import annotations

import random
import warnings

import html5lib
from selectolax.lexbor import LexborHTMLParser

from crawler.links import PageLinks, extract_links
from crawler.links.tags import TREE_BYTES
from crawler.settings import LinkSettings

_SETTINGS = LinkSettings(respect_meta_robots=False)
_SPACE = " \t\n\f\r"
_NAMES = (
    *("a", "a", "a", "A", "area", "base", "p", "div", "b", "i", "table", "tr", "td", "caption", "select"),
    *("option", "svg", "math", "title", "textarea", "script", "style", "noscript", "iframe", "xmp"),
    *("plaintext", "template", "form", "button", "body", "html", "head", "meta", "link", "img", "br", "li"),
    *("ul", "font", "nobr", "noframes", "noembed", "foreignObject", "desc", "mi", "annotation-xml", "frameset"),
    *("frame", "object", "h1", "col", "colgroup", "image", "input", "hr", "ruby", "rt"),
)
_PIECES = (
    *("text", " ", "\n", "<", ">", "&", "&amp;", "&lt;", "&#0;", "&#x41;", "&notit;", "\x00", "é", "\ufeff"),
    *("<!---->", "<!-->", "<!--", "-->", "--!>", "<!-", "<!doctype html>", "<![CDATA[", "]]>", "<?x?>", "</"),
    *("</>", "<a", "<!", "'", '"', "=", "/", "<script><!--<script>", "</script>", "</title>", "</textarea>"),
    *("</xmp>", "</style>", "<a href=", "<a href='", '<a href="'),
)
_VALUES = (
    *("/x", "y", "", "#f", "http://a.test/", " z ", "a&amp;b", "a&b=c", "?q", "a'b", "&#x2f;n", "/é", "a\nb"),
    *("//c", "&copy=1"),
)


def make(chance: random.Random) -> bytes:
    """Tags, pieces of tags and text in any order."""
    return "".join(_token(chance) for _ in range(chance.choice((3, 8, 20, 60)))).encode()


def _token(chance: random.Random) -> str:
    match chance.randrange(8):
        case 0 | 1:
            return chance.choice(_PIECES)
        case 2:
            return f"</{chance.choice(_NAMES)}>"
        case 3 | 4 | 5:
            return f"<{chance.choice(_NAMES)}{_attributes(chance)}>"
        case _:
            return f"<a href={_quoted(chance, chance.choice(_VALUES))}>"


def _attributes(chance: random.Random) -> str:
    made = ""
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        name = chance.choice(("href", "HREF", "href", "rel", "title", "xlink:href", "data-href", "<", "=", "/"))
        made += chance.choice((" ", "/", "\n", "")) + name
        if chance.random() < 0.8:
            made += chance.choice(("=", " = ", "=\n")) + _quoted(chance, chance.choice(_VALUES))
    return made + chance.choice(("", "", "/", " "))


def _quoted(chance: random.Random, value: str) -> str:
    quote = chance.choice(('"', '"', "'", ""))
    return f"{quote}{value}{quote}"


def check(page: bytes) -> str:
    """The same links from the page, from the page with padding, and from two other parsers."""
    small = extract_links(page, "utf-8", _SETTINGS)
    large = extract_links(padded(page), "utf-8", _SETTINGS)
    assert _of(small) == _of(large), f"small {_of(small)}, large {_of(large)}"
    wanted = reference(page)
    assert _of(small) == wanted, f"{_of(small)}, not {wanted} of Lexbor"
    return "some links" if small.hrefs else "none"


def padded(page: bytes) -> bytes:
    """The page made large in front, where padding is nothing in every state."""
    return b" " * TREE_BYTES + page


def _of(links: PageLinks) -> tuple[str | None, list[str]]:
    return links.base, links.hrefs


def reference(page: bytes) -> tuple[str | None, list[str]]:
    """What Lexbor's tree holds."""
    tree = LexborHTMLParser(page)
    bases = [node.attrs.get("href") or "" for node in tree.css("base[href]")]
    base = bases[0].strip(_SPACE) if bases else None
    hrefs = [(node.attrs.get("href") or "").strip(_SPACE) for node in tree.css("a[href],area[href]")]
    if base is None:
        hrefs = [href for href in hrefs if not href.startswith("#") and href]
    return base, list(dict.fromkeys(hrefs))


def html5(page: bytes) -> list[str]:
    """The same by html5lib."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = html5lib.parse(page, namespaceHTMLElements=False, transport_encoding="utf-8")
    return [(node.get("href") or "").strip(_SPACE) for node in tree.iter("a", "area") if node.get("href") is not None]
