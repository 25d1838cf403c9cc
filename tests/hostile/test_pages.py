"""Pages that cost more to parse than to send."""

from __future__ import annotations

import gzip

from tests.examples import long_or
from tests.hostile.server import page
from tests.hostile.web import EVIL, Hostile
from tests.needs import need_native
from tests.site import linked

FORMATTING = (b"b", b"i", b"s", b"u", b"em", b"tt", b"big", b"code")
LINK = b"<a href=/found>"
HREFS = long_or(40, 500)  # long ones, each of which is fetched


def packed(body: bytes, kind: str = "text/html") -> bytes:
    return page(gzip.compress(body, 9), "Content-Encoding: gzip", kind=kind)


OPENED = b"".join(b"<%b a=%d>" % (FORMATTING[n % 8], n) for n in range(800))
# What is small on the line and was gigabytes or minutes as a tree.
BOMBS = {
    "/copies": b"<p>" + OPENED + b"<p>x" * 13_000 + LINK,
    "/small-copies": b"<p><a " + b" ".join(b"%x" % n for n in range(2_000)) + b">" + b"<p>x" * 1_500,
    "/deep": b"<div>" * 100_000 + LINK,
    "/attributes": b"<p " + b" ".join(b"%x" % n for n in range(50_000)) + b">" + LINK,
    "/many": b"<p>x" * 700_000 + LINK,
    "/large": b"<p>" + b"word " * 1_000_000 + LINK,
}
NEEDS_A_TREE = b"<svg><p>"  # what such a page's tokens do not tell


def test_trees_that_explode_and_are_not_needed(hostile: Hostile) -> None:
    need_native()
    hostile.pages[EVIL] = {
        "/": page(linked([*BOMBS, "/ok"])),
        **{path: packed(body) for path, body in BOMBS.items()},
        "/found": page("found"),
        "/ok": page("still here"),
    }
    rows = hostile.crawl().of()
    assert set(rows) == {"/", *BOMBS, "/ok", "/found"}
    for path in BOMBS:
        assert (rows[path]["outcome"], rows[path]["error"]) == ("fetched", None)
        assert rows[path]["links"] == (path != "/small-copies")


def test_trees_that_explode(hostile: Hostile) -> None:
    bombs = {path: body + NEEDS_A_TREE for path, body in BOMBS.items()}
    hostile.pages[EVIL] = {
        "/": page(linked([*bombs, "/ok"])),
        **{path: packed(body) for path, body in bombs.items()},
        "/found": page("found"),
        "/ok": page("still here"),
    }
    rows = hostile.crawl().of()
    assert {row["outcome"] for row in rows.values()} == {"fetched"}
    assert set(rows) == {"/", *bombs, "/ok", "/found"}
    for path in ("/copies", "/small-copies", "/deep", "/attributes", "/many"):
        assert rows[path].get("links_cut"), rows[path]
        assert rows[path]["links"] == (path != "/small-copies")
    assert "links_cut" not in rows["/large"]


def test_links_without_measure(hostile: Hostile) -> None:
    """One link of megabytes, whose 16 took 14 s to encode; a base of a megabyte; hrefs of all that a page may hold."""
    query = "\u0436".encode("cp1251")
    pages = {
        "/query": b"<a href='/?" + query * long_or(8_000_000, 16_000_000) + b"'>" + LINK,
        "/queries": b"".join(b"<a href='/%d?%b'>" % (n, query * 12_000) for n in range(HREFS)) + LINK,
        "/base": b"<base href='/" + b"x" * 1_000_000 + b"'>" + LINK,
        "/data": b"<a href='data:" + b"x" * 1_000_000 + b"'>" + LINK,
        "/dots": b"".join(b"<a href='%b%d'>" % (b"../" * 5_000, n) for n in range(HREFS)) + LINK,
    }
    hostile.pages[EVIL] = {
        "/": page(linked([*pages, "/ok"])),
        **{path: packed(body, "text/html; charset=windows-1251") for path, body in pages.items()},
        "/found": page("found"),
        "/ok": page("still here"),
    }
    rows = hostile.crawl().of()
    assert {path: rows[path]["outcome"] for path in (*pages, "/ok", "/found")} == dict.fromkeys(
        (*pages, "/ok", "/found"), "fetched"
    )
    assert {"/found", "/ok"} <= set(rows)
    assert "1000001" in rows["/base"]["error"]
    assert [rows[path]["links"] for path in pages] == [1, 1, 0, 1, HREFS + 1], "what is too long as sent is left out"


LABELS = (
    "GBK",
    "gb18030",
    "Big5",
    "EUC-JP",
    "Shift_JIS",
    "EUC-KR",
    "ISO-2022-JP",
    "KOI8-U",
    "UTF-16LE",
    "866",
    "latin1",
)


def test_sitemaps_that_end_a_reader(hostile: Hostile) -> None:
    """All encodings, one of which ended the crawl and each restart of it; entities, depth, attributes, bombs."""
    listing = "<?xml version='1.0' encoding='{0}'?><urlset><url><loc>{1}</loc></url>"
    laughs = "".join(f"<!ENTITY l{n + 1} '{f'&l{n};' * 10}'>" for n in range(20))
    odd = {
        "/laughs.xml": f"<!DOCTYPE u [<!ENTITY l0 'ha'>{laughs}]><urlset><url><loc>&l20;</loc></url></urlset>".encode(),
        "/outside.xml": b"<!DOCTYPE u [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><urlset><url><loc>&f;</loc></url></urlset>",
        "/deep.xml": b"<urlset>" + b"<url>" * 1_000_000,
        "/text.xml": b"<urlset><url><loc>" + b"x" * 8_000_000,
        "/attribute.xml": b"<urlset><url a='" + b"x" * 8_000_000,
        "/attributes.xml": b"<urlset><url " + b" ".join(b"a%d=''" % n for n in range(20_000)) + b">",
        "/bomb.xml": gzip.compress(b"<urlset>" + b" " * 60_000_000, 9),
    }
    packed = {path: gzip.compress(body, 9) for path, body in odd.items()}
    names = [*(f"/{label}.xml" for label in LABELS), *odd]
    robots = "".join(f"Sitemap: {hostile.url(name)}\n" for name in names)
    hostile.pages[EVIL] = {
        "/robots.txt": page(robots, kind="text/plain"),
        "/": page("x"),
        **{
            f"/{label}.xml": page(listing.format(label, hostile.url(f"/of-{label}")).encode(label), kind="text/xml")
            for label in LABELS
        },
        **{path: page(body, "Content-Encoding: gzip", kind="text/xml") for path, body in packed.items()},
        **{f"/of-{label}": page("listed") for label in LABELS},
    }
    rows = hostile.crawl().of()
    assert {rows[f"/of-{label}"]["outcome"] for label in LABELS} == {"fetched"}
    assert {rows[path]["outcome"] for path in names} == {"fetched"}
    for path in odd:
        assert rows[path].get("links_cut"), rows[path]
