"""Sitemaps that are long, in encodings that the parser does not know by itself."""

from __future__ import annotations

import pytest

from tests.hostile.server import page
from tests.hostile.web import EVIL, Hostile
from tests.site import linked

ENTRIES = 10_000


@pytest.mark.parametrize("encoding", ["GBK", "utf-8"])
def test_a_long_sitemap(hostile: Hostile, encoding: str) -> None:
    listed = "".join(f"<url><loc>/{number}</loc></url>" for number in range(ENTRIES))
    sitemap = page(f"<?xml version='1.0' encoding='{encoding}'?><urlset>{listed}</urlset>", kind="application/xml")
    hostile.pages[EVIL] = {
        "/": page(linked(["/sitemap.xml", "/ok"])),
        "/sitemap.xml": sitemap,
        "/ok": page("still here"),
    }
    ran = hostile.crawl(settings={"traps.max_variants": 40})
    assert ran.row("/sitemap.xml")["links"] == ENTRIES
    assert ran.row("/sitemap.xml")["error"] is None
    assert ran.row("/ok")["outcome"] == "fetched"
