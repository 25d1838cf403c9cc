"""Pages in Markdown: asked for, followed and kept as they are if Markdown is wanted, and else as ever."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.job.output import outputs
from tests.jobs import rows
from tests.outputs import parts_of
from tests.program import crawler
from tests.site import Handler, Site, linked

USUAL = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
WANTED = "text/markdown,text/html;q=0.9,application/xhtml+xml;q=0.8,*/*;q=0.5"
ROOT = "---\ntitle: front\n---\r\n# Home é\n\n[either](/either) [text](/plain.md) <script> [page][p]\0\n\n[p]: /page\n"
TYPE = "text/markdown; charset=UTF-8; variant=GFM"
ALTERNATE = 'rel="alternate"; type="text/markdown"'


@pytest.fixture
def asked() -> dict[str, str]:
    """What each path was last asked for with."""
    return {}


@pytest.fixture
def site(asked: dict[str, str]) -> Iterator[Site]:
    def answer(html: str | None, markdown: str = "", kind: str = TYPE, link: str = "") -> Handler:
        async def handle(request: web.Request) -> web.Response:
            asked[request.path] = request.headers["Accept"]
            negotiated = html is None or (markdown and "text/markdown" in request.headers["Accept"])
            headers = {"Content-Type": kind if negotiated else "text/html", **({"Link": link} if link else {})}
            return web.Response(body=(markdown if negotiated else html or "").encode(), headers=headers)

        return handle

    pages = {
        "/": answer(linked(["/either", "/plain.md", "/page"]), ROOT),
        "/either": answer("<p>either", "no links"),
        "/page": answer(
            "<link rel=alternate type=text/markdown href=/page.md><p>page", link=f"</other.md>; {ALTERNATE}"
        ),
        "/page.md": answer(None, "[last](/last)"),
        "/other.md": answer(None, "# Other"),
        "/plain.md": answer(None, "[hidden](/hidden)", "text/plain"),
        "/last": answer("<p>last"),
        "/hidden": answer("<p>hidden"),
    }
    with Site(pages, robots=answer(None, "", "text/plain")) as served:
        yield served


def crawled(site: Site, job: Path, output: str, *more: str | Path) -> dict[str, dict[str, Any]]:
    """The records of a crawl, by path."""
    ran = crawler(site.url("/"), "--job", job, "--output", output, "--allow-private", "--delay", "0", "--quiet", *more)
    assert ran.code == 0, ran.err
    return {row["url"].removeprefix(site.url("")): row for row in rows(job)}


def test_what_is_markdown_is_followed_and_kept_as_it_is(site: Site, asked: dict[str, str], tmp_path: Path) -> None:
    found = crawled(site, tmp_path / "job", "text,markdown,warc")
    assert set(found) == {"/", "/either", "/page", "/page.md", "/other.md", "/plain.md", "/last"}
    assert {path: accept for path, accept in asked.items() if accept != WANTED} == {"/robots.txt": USUAL}
    assert (found["/"]["links"], found["/"]["title"], found["/"]["error"]) == (3, "Home é", None)
    kept = parts_of(tmp_path / "job", "text")
    texts = {url.removeprefix(site.url("")): json.loads(row) for url, row in kept.items()}
    assert set(texts) == set(found) - {"/plain.md"}
    assert {path for path, row in texts.items() if row["extractor"] == "markdown"} == {
        *("/", "/either", "/page.md", "/other.md")
    }
    assert (texts["/"]["text"], texts["/"]["markdown"], texts["/"]["title"]) == (ROOT, ROOT, "Home é")
    (archive,) = outputs.FORMS[1].numbers(tmp_path / "job")
    sent = gzip.decompress(outputs.FORMS[1].path(tmp_path / "job", archive).read_bytes())
    assert sent.count(f"Accept: {WANTED}\r\n".encode()) == len(found)


def test_what_the_user_states_wins(site: Site, asked: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f'[[site]]\nmatch = "{site.hosts[0]}"\nheaders = ["accept: text/html"]\n')
    found = crawled(site, tmp_path / "job", "markdown", "--config", tmp_path / "own.toml")
    assert found["/"]["content_type"] == "text/html"
    assert set(asked.values()) == {"text/html"}


def test_otherwise_all_is_as_ever(site: Site, asked: dict[str, str], tmp_path: Path) -> None:
    found = crawled(site, tmp_path / "job", "text")
    assert set(found) == {"/", "/either", "/page", "/plain.md"}
    assert set(asked.values()) == {USUAL}
