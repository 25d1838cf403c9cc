"""Pages in Markdown: asked for, followed and kept as they are if Markdown is wanted, and else as ever."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.outputs import files_of, parts_of, records
from tests.program import crawler
from tests.site import Handler, Site, linked

USUAL = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
WANTED = "text/markdown,text/html;q=0.9,application/xhtml+xml;q=0.8,*/*;q=0.5"
ROOT = "---\ntitle: front\n---\r\n# Home é\n\n[either](/either) [text](/plain.md) <script> [page][p]\0\n\n[p]: /page\n"
NAMED = '</other.md>; rel="alternate"; type="text/markdown"'


def answer(asked: dict[str, str], html: str, markdown: str = "", kind: str = "text/markdown; variant=GFM") -> Handler:
    """Answers in Markdown if that is accepted, or if there is nothing else."""

    async def handle(request: web.Request) -> web.Response:
        asked[request.path] = request.headers["Accept"]
        either = markdown and (not html or "text/markdown" in request.headers["Accept"])
        headers = {"Content-Type": kind if either else "text/html", "Link": NAMED if request.path == "/page" else ""}
        return web.Response(body=(markdown if either else html).encode(), headers=headers)

    return handle


def crawl(job: Path, output: str, *more: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]], Any]:
    """The records and the rows of text by path, and what each path was asked for with. ``more`` are headers."""
    asked: dict[str, str] = {}
    pages = {
        "/": answer(asked, linked(["/either", "/plain.md", "/page"]), ROOT),
        "/either": answer(asked, "<p>either", "no links"),
        "/page": answer(asked, "<link rel=alternate type=text/markdown href=/page.md><p>page"),
        "/page.md": answer(asked, "", "[last](/last)"),
        "/other.md": answer(asked, "", "# Other"),
        "/plain.md": answer(asked, "", "[hidden](/hidden)", "text/plain"),
        "/last": answer(asked, "<p>last"),
    }
    with Site(pages, robots=answer(asked, "", "#", "text/plain")) as site:
        config = job.with_suffix(".toml")
        config.write_text(f'[[site]]\nmatch = "{site.hosts[0]}"\nheaders = {json.dumps(more)}\n')
        options = ("--output", output, "--config", config, "--allow-private", "--delay", "0", "--quiet")
        ran = crawler(site.url("/"), "--job", job, *options)
    assert ran.code == 0, ran.err
    rows = map(json.loads, parts_of(job, "text").values())
    return *({row["url"].removeprefix(site.url("")): row for row in each} for each in (records(job), rows)), asked


def test_what_is_markdown_is_followed_and_kept_as_it_is(tmp_path: Path) -> None:
    found, rows, asked = crawl(tmp_path / "job", "text,markdown,structured,warc")
    assert set(found) == {"/", "/either", "/page", "/page.md", "/other.md", "/plain.md", "/last"}
    assert asked == dict.fromkeys(found, WANTED) | {"/robots.txt": USUAL}
    assert (found["/"]["links"], found["/"]["title"], found["/"]["error"]) == (3, "Home é", None)
    assert set(rows) == set(found) - {"/plain.md"}
    own = {path for path, row in rows.items() if row["extractor"] == "markdown"}
    assert own == {"/", "/either", "/page.md", "/other.md"}
    assert (rows["/"]["text"], rows["/"]["markdown"], rows["/"]["title"]) == (ROOT, ROOT, "Home é")
    (archive,) = files_of(tmp_path / "job", "warc").values()
    assert gzip.decompress(archive).count(f"Accept: {WANTED}\r\n".encode()) == len(found)


@pytest.mark.parametrize(("output", "own", "sent"), [("text", (), USUAL), ("markdown", ("accept: text/x",), "text/x")])
def test_otherwise_all_is_as_ever(tmp_path: Path, output: str, own: tuple[str, ...], sent: str) -> None:
    found, rows, asked = crawl(tmp_path / "job", output, *own)
    assert set(asked.values()) == {sent}
    assert found["/"]["content_type"] == "text/html"
    if not own:
        assert set(found) == {"/", "/either", "/page", "/plain.md"}
        assert set(rows) == set(found) - {"/plain.md"}
