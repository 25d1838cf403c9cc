"""The links of a page: those that Lexbor and html5lib see, and the same where the page is large.

A page above a certain size may be read in another way than a small one. So each page is also read with padding in front
of it, which must change nothing.
"""

from __future__ import annotations

import random
import re
import warnings

import html5lib
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import extract_links, scan_links

_PLAIN = LinkSettings(respect_meta_robots=False, kinds=())
_ALL = LinkSettings(respect_meta_robots=False)
_NEEDS_TREE = re.compile(rb"<svg|<math|<frame|template|select", re.I)  # what the tags alone do not tell
_PADDING = b" " * 100_000  # in front, where spaces are nothing
# What has become of the standard since html5lib was written.
_HTML5LIB_DIFFERS = re.compile(
    rb"template|select|menuitem|ruby|<rt|<svg|<math|noscript|<!\[CDATA|<frameset|<isindex", re.I
)
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
    """The same links from the page, from the page made large, and from two other parsers."""
    plain = extract_links(page, "utf-8", _PLAIN)
    wanted = reference(page)
    assert (plain.base, plain.hrefs) == wanted, f"{(plain.base, plain.hrefs)}, not {wanted} of Lexbor"
    if not _HTML5LIB_DIFFERS.search(page):
        other = html5(page)
        assert set(plain.hrefs) == other, f"{set(plain.hrefs)}, not {other} of html5lib"
    small, large = extract_links(page, "utf-8", _ALL), extract_links(_PADDING + page, "utf-8", _ALL)
    assert small == large, f"small {small}, large {large}"
    if not _NEEDS_TREE.search(page):
        scanned = scan_links(page, "utf-8", _ALL)
        # The tree moves what stands between the cells of a table.
        assert small.base == scanned.base, f"base {small.base!r}, of the tags alone {scanned.base!r}"
        assert set(small.hrefs) == set(scanned.hrefs), f"tree {small.hrefs}, tags alone {scanned.hrefs}"
    return "some links" if small.hrefs else "none"


def reference(page: bytes) -> tuple[str | None, list[str]]:
    """What Lexbor's tree holds."""
    tree = LexborHTMLParser(page)
    # The selector also finds `xlink:href`, and elements of SVG and MathML.
    bases = [node.attrs.get("href") or "" for node in tree.css("base") if "href" in node.attrs and not _foreign(node)]
    base = bases[0].strip(_SPACE) if bases else None
    hrefs = [(node.attrs.get("href") or "").strip(_SPACE) for node in tree.css("a,area") if "href" in node.attrs]
    return base, list(dict.fromkeys(href for href in hrefs if base is not None or _leads_away(href)))


def _foreign(node: LexborNode) -> bool:
    """Whether the element is one of SVG or MathML."""
    parent = node.parent
    while parent is not None and (parent.tag or "").lower() not in _PLACES:
        parent = parent.parent
    return parent is not None and (parent.tag or "").lower() in ("svg", "math")


_PLACES = ("svg", "math", "foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext")


def html5(page: bytes) -> set[str]:
    """The links of html5lib's tree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = html5lib.parse(page, namespaceHTMLElements=False, transport_encoding="utf-8")
    hrefs = [
        node.get("href").strip(_SPACE) for node in tree.iter() if node.tag in ("a", "area") and "href" in node.attrib
    ]
    based = any("href" in node.attrib for node in tree.iter("base"))
    return {href for href in hrefs if based or _leads_away(href)}


def _leads_away(href: str) -> bool:
    return bool(href) and not href.startswith("#")
