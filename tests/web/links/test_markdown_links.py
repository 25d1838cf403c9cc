"""What a page in Markdown links to, and what it may cost."""

from __future__ import annotations

import asyncio
from contextlib import closing

from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.extract import PageLinks
from crawler.web.links.markdown_links import PIECE, markdown_links
from crawler.web.parsing.pages import PageParser
from crawler.web.parsing.wire import Kind, ParseLimits

SETTINGS = LinkSettings()
PAGE = (
    "---\ntitle: front\n---\nIntro [one *em*](/one 't') ![pic](pic.png) [![in a link](in.png)](/two)\n\n"
    "# The `Title` of **it**\n<p><a href='/html?a=1&b=2'>H</a> <!-- <a href=/comment> -->\n\n"
    "with <a href='/tag'>x</a> and <script> nothing [after](</af ter>) <https://auto.test/x> [ref] ![image][im]\n\n"
    "    [indented](/code)\n\n```\n[fenced](/fence)\n```\n`[span](/span)` \\[escaped](/escaped) [ä](/ä) [own](#x)\n"
    "| [cell](/cell) |\n\n[ref]: /ref\n[unused]: /unused\n[im]: image.png\n"
)
LINKS = ["/one", "/two", "/html?a=1&b=2", "/tag", "/af%20ter", "https://auto.test/x", "/ref"]
LINKS += ["/%C3%A4", "/cell", "/unused"]
HOSTILE = ((b"![", 50_000), (b"[", 1_000_000), (b"[a][", 100_000), (b"*", 100_000), (b">", 1_000_000))
HOSTILE += ((b"a <![CDATA[", 50_000), ("\U0001f600".encode(), 4_000_000), (b"[a]: /%b\n\n" % (b"u" * 10**5), 2))


def test_links_are_those_of_common_mark_and_of_html_in_it() -> None:
    found = markdown_links(PAGE.encode(), None, SETTINGS)
    assert (found.hrefs, found.embedded, found.about.title) == (LINKS, [], "The Title of it")
    found = markdown_links(PAGE.replace("\n", "\r\n").encode("utf-16"), "utf-8", DescribedLinks(embedded="scope"))
    assert (found.hrefs, found.embedded) == (LINKS, ["pic.png", "in.png", "image.png"])
    assert found.described is not None
    assert (found.described.texts["/one"], found.described.texts["/af%20ter"]) == ("one em", "after")
    assert markdown_links(b"---\ntitle: 'in \xe9'\n...\nText", "iso-8859-1", SETTINGS).about.title == "in é"


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
    async def read() -> None:
        with closing(PageParser(ParseLimits(markdown=4.0, markdown_seconds=0.3))) as parser:
            for piece, times in (*HOSTILE, (b"[a](b)", 1)):
                page = piece * times + b"[a] " * (2_000 if times > 1 else 0)
                found = await parser.parse_isolated("a.test", page, None, SETTINGS, Kind.MARKDOWN)
                assert isinstance(found, PageLinks)
        assert (found.hrefs, found.cut) == (["b"], None), "it goes on"

    asyncio.run(read())
