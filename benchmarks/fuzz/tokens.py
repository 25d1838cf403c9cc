"""The links of a page by its tokens, in C: those of Lexbor's tree, or the word that only a tree can tell.

The pieces are what makes a tree differ from its tokens: tables, drawings, templates, frames, elements without markup,
formatting elements that are copied. Pages are also cut and damaged anywhere.
"""

from __future__ import annotations

import random

from benchmarks.fuzz import links
from crawler.links import PageLinks, Undecided, extract_links, token_links
from crawler.settings import LinkSettings

_SETTINGS = (
    LinkSettings(),
    LinkSettings(respect_rel_nofollow=True, kinds=("next", "iframe", "feed")),
    LinkSettings(max_links=3, max_url_length=1),
    LinkSettings(embedded="scope"),
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


def make(chance: random.Random) -> tuple[bytes, str | None, LinkSettings]:
    """A page of few kinds of pieces, which come together in many ways."""
    if chance.random() < 0.2:
        page = links.make(chance).decode()
    else:
        some = chance.choices(PIECES, k=chance.randint(2, 12))
        count = chance.choice((3, 8, 20, 60))
        page = "".join(chance.choice(some if chance.random() < 0.7 else PIECES) for _ in range(count))
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
    return "some links" if told.hrefs else "none"
