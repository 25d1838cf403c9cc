"""What a page in Markdown links to, and what it may cost."""

from __future__ import annotations

import asyncio

from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.extract import PageLinks
from crawler.web.links.markdown import PIECE, decoded, markdown_links
from crawler.web.parsing.pages import PageParser
from crawler.web.parsing.wire import Kind, ParseLimits

SETTINGS = LinkSettings()
PAGE = """\
---
title: "in front"
---
Intro [one *em*](/one "t") ![pic](pic.png) [![in a link](in.png)](/two)

# The `Title` of **it**
<p><a href="/html?a=1&b=2">H</a> <!-- <a href=/comment> -->

with <a href='/tag'>x</a> and <script> nothing [after](</af ter>) <https://auto.test/x> [ref] ![image][im]

    [indented](/code)

```
[fenced](/fence)
```
`[span](/span)` \\[escaped](/escaped) [ä](/ä) [own](#x) [script](javascript:1)
| [cell](/cell) |

[ref]: /ref
[unused]: /unused
[im]: image.png
"""
LINKS = ["/one", "/two", "/html?a=1&b=2", "/tag", "/af%20ter", "https://auto.test/x"]
LINKS += ["/ref", "/%C3%A4", "/cell", "/unused"]


def test_links_are_those_of_common_mark_and_of_html_in_it() -> None:
    found = markdown_links(PAGE.encode(), None, SETTINGS)
    assert (found.hrefs, found.embedded, found.about.title) == (LINKS, [], "The Title of it")
    found = markdown_links(PAGE.replace("\n", "\r\n").encode(), "utf-8", DescribedLinks(embedded="site"))
    assert (found.hrefs, found.embedded) == (LINKS, ["pic.png", "in.png", "image.png"])
    assert found.described is not None
    assert (found.described.texts["/one"], found.described.texts["/af%20ter"]) == ("one em", "after")
    assert markdown_links(b"---\ntitle: in 'front'\n...\n[a](b)", None, SETTINGS).about.title == "in 'front"


def test_its_encoding_is_stated_or_utf_8() -> None:
    assert decoded("\ufeffé".encode(), "latin-1") == ("é", "utf-8")
    assert decoded("é".encode("utf-16"), None) == ("é", "utf-16le")
    assert decoded("é".encode("latin-1"), "iso-8859-1") == ("é", "windows-1252")
    assert decoded(b"\xe9", None) == ("\ufffd", "utf-8")


def test_a_long_page_is_read_in_pieces_that_share_their_references() -> None:
    pieces = [f"[{n}](/{n})\n{'.' * (PIECE // 8)}\n\n# More\n\n" for n in range(20)]
    page = "".join(["[ref]: /ref\n\n", *pieces, "[ref] [late]\n\n", "." * 2 * PIECE, "\n\n[late]: /late"]).encode()
    numbered = [f"/{n}" for n in range(20)]
    found = markdown_links(page, None, SETTINGS)
    assert (found.hrefs, found.cut) == ([*numbered, "/ref", "/late"], None)
    turns = iter([True] * 9)
    some = markdown_links(page, None, SETTINGS, lambda: next(turns, False))
    assert (some.hrefs, some.cut is not None) == (numbered[:8], True)  # and the title


def test_no_page_takes_more_than_its_share() -> None:
    pages = [
        b"![" * 50_000,
        b"[" * 1_000_000,
        b"[a][" * 100_000,
        b"*" * 100_000 + b"[a](b)",
        b">" * 1_000_000 + b"[a](b)",
        b"[a]: /" + b"u" * 100_000 + b"\n\n" + b"[a] " * 20_000,
        b"".join(b"%b- [a](%d)\n" % (b" " * 2 * n, n) for n in range(400)),
        b"a <![CDATA[" * 50_000,
        "\U0001f600".encode() * 4_000_000 + b"[a](b)",
    ]
    found = list[PageLinks]()

    async def read() -> None:
        parser = PageParser(ParseLimits(markdown=4.0, markdown_seconds=0.3))
        try:
            for page in (*pages, b"[a](b)"):
                links = await parser.parse_isolated("a.test", page, None, SETTINGS, Kind.MARKDOWN)
                assert isinstance(links, PageLinks)
                found.append(links)
        finally:
            parser.close()

    asyncio.run(read())
    assert (found[-1].hrefs, found[-1].cut) == (["b"], None)
