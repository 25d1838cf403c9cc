"""Sitemaps in a whole crawl: found, fetched like any URL, and what they list with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.program import crawler
from tests.site import Handler, Site, linked


def serve(body: bytes, kind: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind)

    return answer


def listing(root: str, inner: str, *locs: str) -> str:
    return f"<{root}>" + "".join(f"<{inner}><loc>{loc}</loc></{inner}>" for loc in locs) + f"</{root}>"


def pages(host: str) -> dict[str, str | Handler]:
    at = f"http://{host}"
    index = listing("sitemapindex", "sitemap", f"{at}/one.xml", f"{at}/two.xml.gz", "http://elsewhere.test/three.xml")
    one = listing("urlset", "url", f"{at}/a", f"{at}/b", "mailto:me@h.test", "http://elsewhere.test/")
    two = listing("urlset", "url", f"{at}/c", f"{at}/a")
    return {
        "/": linked(["/linked", "/feed.xml", "/data.tar.gz"]),
        "/index": serve(index.encode(), "application/xml"),
        "/one.xml": serve(one.encode(), "text/xml"),
        "/two.xml.gz": serve(gzip.compress(two.encode()), "application/octet-stream"),
        "/feed.xml": serve(b"<rss><item><link>http://127.0.0.1/</link></item></rss>", "application/xml"),
        "/data.tar.gz": serve(gzip.compress(b"x" * 100), "application/gzip"),
        "/broken.xml": serve(one.encode()[:-25] + b"<!DOCTYPE a>", "text/xml"),
        **{path: linked([f"{path}/below"]) for path in ("/a", "/b", "/c", "/linked")},
        **{f"{path}/below": linked([]) for path in ("/a", "/b", "/c", "/linked")},
    }


def crawl(tmp_path: Path, site: Site, *words: str, seed: str = "/") -> dict[str, dict[str, Any]]:
    (tmp_path / "seeds").write_text(site.url(seed) + "\n")
    job = tmp_path / "job"
    ran = crawler("crawl", tmp_path / "seeds", "--job", job, "--allow-private", "--delay", "0", *words)
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
    assert crawler("verify", job).code == 0
    return {"/" + row["url"].split("/", 3)[3]: row for row in rows}


ROBOTS = "User-agent: *\nDisallow: /b\nSitemap: {host}\nsitemap: http://{host}/index # all\n"


class Named(Site):
    """The pages link to their own host by name."""

    def __enter__(self) -> Named:
        super().__enter__()
        self.pages = pages(self.hosts[0])
        return self


def test_sitemaps_that_robots_txt_names_are_followed(tmp_path: Path) -> None:
    with Named({}, robots=ROBOTS) as site:
        done = crawl(tmp_path, site, "--max-depth", "1")
        robots = site.url("/robots.txt")
    fetched = {path: row for path, row in done.items() if row["outcome"] == "fetched"}
    assert set(fetched) == {
        *("/", "/linked", "/feed.xml", "/data.tar.gz", "/index", "/one.xml", "/two.xml.gz", "/a", "/c"),
        "/" + robots.split("/")[2],  # a sitemap named by host alone, as a path: answered 404
    }
    assert (done["/index"]["via"], done["/index"]["depth"], done["/index"]["links"]) == (robots, 1, 3)
    assert (done["/one.xml"]["depth"], done["/one.xml"]["links"]) == (1, 3)
    assert (done["/a"]["depth"], done["/a"]["via"].split("/")[-1]) == (1, "one.xml")
    assert done["/b"]["outcome"] == "excluded"
    assert done["/feed.xml"]["links"] == done["/data.tar.gz"]["links"] == 0
    assert done["/feed.xml"]["error"] is None
    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert stats["sitemaps_read"] == 3


def test_a_seed_may_be_a_sitemap_and_patterns_hold_for_what_it_lists(tmp_path: Path) -> None:
    with Named({}) as site:
        done = crawl(tmp_path, site, "--include", "/a*", seed="/index")
    assert set(done) == {"/index", "/one.xml", "/two.xml.gz", "/a", "/a/below"}
    assert (done["/index"]["depth"], done["/one.xml"]["depth"], done["/a"]["depth"]) == (0, 1, 1)


def test_texts_and_feeds_are_read_where_the_site_calls_them_its_sitemaps(tmp_path: Path) -> None:
    with Site(
        {}, robots="Sitemap: http://{host}/list\nSitemap: http://{host}/news\nSitemap: http://{host}/index\n"
    ) as site:
        at = f"http://{site.hosts[0]}"
        atom = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{at}/atom"/></entry></feed>'
        undeclared = atom.replace("/atom", "/never")
        site.pages = {
            "/": linked(["/undeclared", "/undeclared.xml", "/undeclared.txt"]),
            "/list": serve(f"{at}/a\n{at}/b\nhttp://elsewhere.test/\n".encode(), "text/plain"),
            "/news": serve(
                f"<rss><channel><link>{at}/no</link><item><link>{at}/rss</link></item></channel></rss>".encode(),
                "application/rss+xml",
            ),
            "/index": serve(
                listing("sitemapindex", "sitemap", f"{at}/more", f"{at}/atom.gz", f"{at}/moved").encode(), "text/xml"
            ),
            "/more": serve(gzip.compress(f"{at}/c\nnonsense".encode()), "application/x-gzip"),
            "/atom.gz": serve(gzip.compress(atom.encode()), "application/octet-stream"),
            "/moved": redirect_to("/moved-to"),
            "/moved-to": serve(f"{at}/d\n".encode(), "text/plain"),
            "/undeclared": serve(undeclared.encode(), "application/atom+xml"),
            "/undeclared.xml": serve(undeclared.encode(), "application/xml"),
            "/undeclared.txt": serve(f"{at}/never\n".encode(), "text/plain"),
            **{path: linked([]) for path in ("/a", "/b", "/c", "/d", "/rss", "/atom", "/never")},
        }
        done = crawl(tmp_path, site)
    assert set(done) == set(site.pages) - {"/never"}
    assert (done["/list"]["links"], done["/a"]["depth"], done["/a"]["via"]) == (3, 1, f"{at}/list")
    assert "1" in done["/more"]["error"]
    assert done["/d"]["via"] == f"{at}/moved-to"
    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert stats["sitemaps_read"] == 6


def redirect_to(path: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": path})

    return answer
