"""The links of a page by its tokens, in C: those of Lexbor's tree, or the word that only a tree can tell.

The pieces are what makes a tree differ from its tokens: tables, drawings, templates, frames, elements without markup,
formatting elements that are copied. Pages are also cut and damaged anywhere.
"""

from __future__ import annotations

import random

from benchmarks.fuzz import links
from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.extract import PageLinks, extract_links
from crawler.web.links.tokens import Undecided, token_links

_SETTINGS = (
    LinkSettings(),
    LinkSettings(respect_rel_nofollow=True, kinds=("next", "iframe", "feed")),
    LinkSettings(max_links=3, max_url_length=1),
    LinkSettings(embedded="scope"),
    DescribedLinks(),
    DescribedLinks(),
    DescribedLinks(respect_rel_nofollow=True, kinds=("next", "iframe", "feed", "refresh"), embedded="any"),
    DescribedLinks(max_links=3, max_url_length=1),
)
_CHARSETS = ("utf-8", "utf-8", "utf-8", None, "windows-1251", "utf-16le", "iso-2022-jp", "gbk")
_OPENED = (
    *("a", "b", "i", "p", "div", "span", "table", "tr", "td", "th", "tbody", "thead", "tfoot", "caption"),
    *("colgroup", "select", "option", "form", "svg", "math", "title", "desc", "foreignObject", "mi"),
    *("annotation-xml", "g", "style", "script", "template", "textarea", "noscript", "iframe", "object"),
    *("applet", "marquee", "nobr", "font", "button", "li", "ul", "h1", "xmp", "frameset", "noframes"),
    *("noembed", "ruby", "rt", "pre", "center", "video", "dd", "dl", "em", "u", "body", "html", "head"),
    *("menu", "dialog"),
)
PIECES = (
    *(
        "<a href=1>",
        "<a href=2>",
        "<a href=3>",
        "<a href='#f'>",
        "<a href>",
        "<a href=4 rel=nofollow>",
        "<area href=5>",
    ),
    *("<a/href=6>", "<a href=7/>", "<A HREF=8 href=9>", "<a href='&#x2f;&amp;&copy=1&notit;'>", "<a xlink:href=no>"),
    *("<a rel='x nofollow' href=10>", "<a rel=nofollow\u00a0x href=11>", "<a href=", "<a href='", "<a name=x>"),
    *(f"<{name}>" for name in _OPENED),
    *(f"</{name}>" for name in (*_OPENED, "a", "br")),
    *("<svg/>", "<path/>", "<title/>", "<script/>", "<col>", "<input>", "<br>", "<hr>", "<plaintext>", "<image src=x>"),
    *(
        "<iframe src=12>",
        "<frame src=13>",
        "<base href=14>",
        "<base>",
        "<font color=x>",
        "<html lang=de>",
        "<html lang>",
    ),
    *("<link rel=canonical href=15>", "<link rel='NEXT x' href=16>", "<link rel=alternate type='a/b' href=17>"),
    *("<link rel=alternate type=application/rss+xml href=18>", "<link rel=next href>", "<link href=no>"),
    *("<meta name=robots content=nofollow>", "<meta name=a content>", "<meta http-equiv=Refresh content='0;url=19'>"),
    *(
        "<meta http-equiv=content-language content=fr>",
        "<meta charset=utf-8>",
        "<meta http-equiv=&#114;efresh content=9>",
    ),
    *("<!--", "-->", "--!>", "<!-->", "<!--->", "<![CDATA[", "]]>", "<!doctype html>", "<?php", "<!", "</", "</>", "<"),
    *("<img src=20>", "<img src='#x' srcset='21 2x, 22'>", "<image src=23>", "<source srcset=24>", "<track src=25>"),
    *("<video poster=26>", "<audio src='27 '>", "<embed src=28>", "<input type=image src=29>", "<input src=no>"),
    *(
        "<script src=30>",
        "<object data=31>",
        "<link rel='x ICON' href=32>",
        "<input type=hidden>",
        "<img src>",
        "<image/>",
    ),
    *("text", " ", "\r\n", "\r", "\0", "&", "&lt;", "&#0;", "\u00e9", "\ufeff", "'", '"', "=", "/", ">", "-", "!"),
)
_IN_ANCHORS = (
    *(
        "text",
        " ",
        "\t\r\n",
        "\u00a0\u2003",
        "&amp;",
        "&nbsp;",
        "&notit;",
        "&#13;",
        "&#x85;",
        "&am",
        "p;",
        "<",
        "< ",
        "\0",
    ),
    *("<br>", "<img src=33>", "<wbr>", "<!--c-->", "<?php?>", "</>", "<svg/>", "<path/>", "word " * 90, "\u00e9" * 150),
    *("<picture><source srcset=34></picture>", "<svg><title>x</title><path/></svg>", "<svg><a href=35>", "<hr>"),
)
_NESTED = ("b", "i", "span", "code", "em", "font", "svg", "g", "math", "mi", "div", "p", "h1", "li", "td", "label", "u")


def anchor(chance: random.Random) -> str:
    """An anchor that nearly always ends, with elements in it that nearly always do."""
    parts = [chance.choice(("<a href=36>", "<a href=37#x>", "<a href=38 rel='Me  X'>", "<A HREF='x&amp;y' title=z>"))]
    opened = ["a"]
    for _ in range(chance.choice((0, 1, 3, 8))):
        kind = chance.random()
        if kind < 0.6:
            parts.append(chance.choice(_IN_ANCHORS))
        elif kind < 0.8:
            opened.append(chance.choice(_NESTED))
            parts.append(f"<{opened[-1]}>")
        elif len(opened) > 1:
            parts.append(f"</{opened.pop()}>")
    while opened:
        name = opened.pop()
        parts.append("" if chance.random() < 0.02 else f"</{name}>")
    return "".join(parts)


def make(chance: random.Random) -> tuple[bytes, str | None, LinkSettings]:
    """A page of few kinds of pieces, which come together in many ways."""
    if chance.random() < 0.2:
        page = links.make(chance).decode()
    else:
        some = chance.choices(PIECES, k=chance.randint(2, 12))
        count = chance.choice((3, 8, 20, 60))
        anchors = chance.choice((0.0, 0.0, 0.3))
        page = "".join(
            anchor(chance) if chance.random() < anchors else chance.choice(some if chance.random() < 0.7 else PIECES)
            for _ in range(count)
        )
    charset = chance.choice(_CHARSETS)
    body = bytearray(page.encode(charset or "utf-8", "replace"))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        body[chance.randrange(len(body)) :] = b"" if chance.random() < 0.3 else body[chance.randrange(len(body)) :]
        body += bytes((chance.randrange(256),))
    return bytes(body), charset, chance.choice(_SETTINGS)


def check(made: tuple[bytes, str | None, LinkSettings]) -> str:
    """All that a tree says of the page, if anything is said."""
    body, charset, settings = made
    told = token_links(body, charset, settings)
    if isinstance(told, Undecided):
        return told.value
    wanted = extract_links(body, charset, settings)
    assert told == wanted, "; ".join(
        f"{name} {getattr(told, name)}, not {getattr(wanted, name)}"
        for name in PageLinks.__struct_fields__
        if getattr(told, name) != getattr(wanted, name)
    )
    if told.described is not None and wanted.described is not None:
        assert list(told.described.texts) == list(wanted.described.texts), "another order of what is described"
        return "described" if told.described.texts else "none described"
    return "some links" if told.hrefs else "none"
