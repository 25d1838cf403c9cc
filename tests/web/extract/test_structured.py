"""Structured data of pages: what is read of them, what is kept of what cannot be read, and pages that mean harm."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import turbohtml

from crawler.web.extract.page_text import BYTES_MOST
from crawler.web.extract.structured import structured_of


def read(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(structured_of(turbohtml.parse(page), "http://h.test/a/b"))
    return found


def ld(*blocks: str) -> str:
    return "".join(f'<script type="application/ld+json">{block}</script>' for block in blocks)


RICH = f"""<html prefix="og: https://ogp.me/ns#"><head><link rel="canonical" href="/geese">
<link rel=alternate hreflang=de href="de"><link rel=alternate hreflang=fr href=//f.test/>
<link rel=alternate type=application/rss+xml href=feed><meta name="DC.date" content="14 November">
<meta property="og:title" content="Geese"><meta property="og:image" content=1.png>
<meta property="og:image" content=2.png><meta property="article:modified_time" content="2023-11-15">
<meta name="twitter:card" content="summary"><meta name="author" content="somebody else">
{
    ld(
        '{"@graph":[{"@type":"Person","@id":"#ann","name":"Ann Gander"},{"@type":"Article","x":1.50,'
        '"author":[{"@id":"#ann"},"Bo  Drake"],"datePublished":"2023-11-14T08:00:00+01:00"}]}',
        '[{"@type":"A"},{"@type":"B"}]',
    )
}
<body itemscope itemtype="http://schema.org/Product"><b itemprop=name> Goose </b><img itemprop=image src=g.png>
<div itemprop=offers itemscope><span itemprop=price>5</span></div>
<div vocab="http://schema.org/" typeof="Person"><b property="name">Cy</b></div>"""


def test_what_a_page_says_of_itself() -> None:
    found = read(RICH)
    assert found["json_ld"].pop(0)["@graph"][1]["x"] == 1.5
    assert found == {
        "canonical": "http://h.test/geese",
        "author": ["Ann Gander", "Bo Drake"],
        "published": "2023-11-14T08:00:00+01:00",
        "modified": "2023-11-15",
        "opengraph": {"title": "Geese", "image": ["1.png", "2.png"], "article:modified_time": "2023-11-15"},
        "twitter": {"card": "summary"},
        "hreflang": [{"lang": "de", "href": "http://h.test/a/de"}, {"lang": "fr", "href": "http://f.test/"}],
        "json_ld": [{"@type": "A"}, {"@type": "B"}],
        "microdata": [
            {
                "type": ["http://schema.org/Product"],
                "properties": {
                    "name": ["Goose"],
                    "image": ["http://h.test/a/g.png"],
                    "offers": [{"properties": {"price": ["5"]}}],
                },
            }
        ],
        "rdfa": [{"type": ["http://schema.org/Person"], "properties": {"http://schema.org/name": ["Cy"]}}],
    }
    assert read("<p>nothing") == {}


def test_json_ld_that_is_not_json_is_kept_with_its_error() -> None:
    broken = [
        '{"a":1,}',
        '{"a":"x\ny"}',
        "{'a':1}",
        '{"a":NaN}',
        '{"a":"\\ud800"}',
        "[" * 100 + "]" * 100,
    ]
    hidden = ['<!-- {"a":1} -->', '//<![CDATA[\n{"a":2}\n//]]>', '/*<![CDATA[*/{"a":3}/*]]>*/', " "]
    found = read(ld(*broken, *hidden))
    assert [each["text"] for each in found["json_ld_errors"]] == broken
    assert all(each["error"] for each in found["json_ld_errors"])
    assert found["json_ld"] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert "cut" not in found


def test_a_number_out_of_range_is_a_text_and_the_rest_of_its_block_stays() -> None:
    found = read(ld('{"a":1e999,"b":[-1e400,1.5,1e2],"c":1' + "0" * 400 + "}"))
    assert found == {"json_ld": [{"a": "1e999", "b": ["-1e400", 1.5, 100], "c": 10**400}]}


LAUGHS = "<p itemscope itemref=x0></p>" + "".join(
    f"<div id=x{i}><b itemprop=p itemscope itemref=x{i + 1}></b><b itemprop=q itemscope itemref=x{i + 1}></b></div>"
    for i in range(60)
)
HOSTILE = {
    "flat": ("<div itemscope></div>" * 100_000, False),
    "nested": ("<p itemscope>" + "<div itemscope itemprop=a>" * 10_000, True),
    "nested within the parser's limit": ("<p itemscope>" + "<b itemscope itemprop=a>" * 300, True),
    "typed": ("<div typeof=a property=b>" * 10_000, True),
    "text in text": ("<p itemscope>" + "<b itemprop=a>abc" * 10_000, True),
    "names of one text": (f"<p itemscope><b itemprop='{' '.join(map(str, range(9_999)))}'>{'x' * 100_000}", True),
    "names of one vocabulary": (f"<p vocab='http://{'x' * 99_999}' typeof=a property='{'a ' * 9_999}'>", True),
    "references that double": (LAUGHS, True),
    "references in a circle": ("<p itemscope id=a itemref=b></p><p id=b itemprop=c itemscope itemref=a>", False),
    "long base": (f"<base href='http://h/{'x' * 999_999}'>" + "<link rel=alternate hreflang=a href=b>" * 3_000, True),
    "many blocks": (ld('{"a":1') * 10_000, True),
    "long block": (ld("[" + "{}," * 1_600_000 + "{}]"), True),
    "much of everything": (ld('{"a":"' + "x" * 1_000_000 + '"}') * 6, True),
    "deep": (ld("[" * 100_000), True),
    "comments": (ld("<!--" * 200_000), True),
    "names that are references": (ld('{"@id":"a","name":{"@id":"a"},"author":{"@id":"a"}}'), False),
    "metas": (f"<meta property=og:a content='{'x' * 99_999}'>" * 50, True),
    "no addresses": (
        "<base href='http://[x'><link rel=canonical href='http://[::1'><p itemscope itemref>&#xD800;",
        False,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_that_means_harm_costs_little(name: str) -> None:
    page, cut = HOSTILE[name]
    tree, began = turbohtml.parse(page), time.process_time()
    row = structured_of(tree, "http://h.test/")
    assert time.process_time() - began < 5
    assert len(row) <= BYTES_MOST
    assert json.loads(row).get("cut", False) is cut
