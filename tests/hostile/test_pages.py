"""Pages that cost more to parse than to send."""

from __future__ import annotations

import gzip

from tests.hostile.server import page
from tests.hostile.web import EVIL, Hostile
from tests.site import linked

FORMATTING = (b"b", b"i", b"s", b"u", b"em", b"tt", b"big", b"code")
LINK = b"<a href=/found>"


def packed(body: bytes, kind: str = "text/html") -> bytes:
    return page(gzip.compress(body, 9), "Content-Encoding: gzip", kind=kind)


def test_trees_that_explode(hostile: Hostile) -> None:
    """What is small on the line and was gigabytes or minutes as a tree."""
    opened = b"".join(b"<%b a=%d>" % (FORMATTING[n % 8], n) for n in range(800))
    bombs = {
        "/copies": b"<p>" + opened + b"<p>x" * 13_000 + LINK,
        "/small-copies": b"<p><a " + b" ".join(b"%x" % n for n in range(2_000)) + b">" + b"<p>x" * 1_500,
        "/deep": b"<div>" * 100_000 + LINK,
        "/attributes": b"<p " + b" ".join(b"%x" % n for n in range(50_000)) + b">" + LINK,
        "/many": b"<p>x" * 700_000 + LINK,
        "/large": b"<p>" + b"word " * 1_000_000 + LINK,
    }
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
        assert rows[path]["links_cut"], path
        assert rows[path]["error"].startswith("page read in part: read by its tags alone: its tree needs more than")
        assert rows[path]["links"] == (path != "/small-copies")
    assert "links_cut" not in rows["/large"]


def test_links_without_measure(hostile: Hostile) -> None:
    """One link of 16 MiB, which took 14 s to encode; a base of a megabyte; hrefs of all that a page may hold."""
    query = "\u0436".encode("cp1251")
    pages = {
        "/query": b"<a href='/?" + query * 16_000_000 + b"'>" + LINK,
        "/queries": b"".join(b"<a href='/%d?%b'>" % (n, query * 12_000) for n in range(300)) + LINK,
        "/base": b"<base href='/" + b"x" * 1_000_000 + b"'>" + LINK,
        "/data": b"<a href='data:" + b"x" * 1_000_000 + b"'>" + LINK,
        "/dots": b"".join(b"<a href='%b%d'>" % (b"../" * 5_000, n) for n in range(500)) + LINK,
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
    assert rows["/base"]["error"] == "page read in part: the base of its links has 1000001 characters"
    assert [rows[path]["links"] for path in pages] == [1, 301, 0, 1, 501]
