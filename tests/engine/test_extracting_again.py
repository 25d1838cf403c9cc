"""``crawler text``: pages are extracted again from what a job has kept, and nobody is asked for them."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.export.kept_parts import KeptParts
from crawler.job.job import Job
from crawler.job.job_lock import JobLock
from crawler.job.records import Part, visit_name
from crawler.job.run_settings import read_run
from tests.outputs import files_of, records
from tests.program import crawler, running, wait_until
from tests.site import Site, linked

RULES = "[politeness]\ndelay = 0\n[traps]\nsoft404 = false\n"
PROSE = "<p>" + "A sentence about geese, which fly north in spring and south in autumn. " * 9 + "</p>"
SHELL = f"<title>shell</title><h1>Shell</h1>{PROSE}"


def crawled(job: Path, site: Site, outputs: str) -> Path:
    config = job.with_name("c.toml")
    config.write_text(RULES)
    words = ["--job", job, "--config", config, "--allow-private", "--quiet", "--output", outputs]
    ran = crawler("-", *words, stdin=site.url("/"))
    assert ran.code == 0, ran.err
    return job


def again(job: Path, *words: str) -> str:
    ran = crawler("text", job, *words)
    assert ran.code == 0, ran.err
    checked = crawler("verify", job)
    assert checked.code == 0, checked.out + checked.err
    return ran.out


def rows_of(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for _, file in sorted(files_of(job, "text").items()) for line in file.splitlines()]


@pytest.mark.parametrize("kept", ["bodies", "warc"])
def test_a_page_that_is_extracted_again_has_the_row_of_the_crawl(tmp_path: Path, kept: str) -> None:
    """Also one in an old charset, one with a content coding, a copy, and one that the robots.txt was a copy of."""

    async def old(request: web.Request) -> web.Response:
        body = f'<html lang="ru"><title>Гуси</title><p>{"Гуси летят на север весной. " * 20}'.encode("cp1251")
        return web.Response(body=body, headers={"Content-Type": "text/html; charset=windows-1251"})

    async def zipped(request: web.Request) -> web.Response:
        body = gzip.compress(f"<title>zipped</title>{PROSE}".encode())
        return web.Response(body=body, content_type="text/html", headers={"Content-Encoding": "gzip"})

    async def shell(request: web.Request) -> web.Response:
        return web.Response(text=SHELL, content_type="text/html")

    paths = ["/old", "/zipped", "/copy", "/copy2", "/shell"]
    copy = f"<title>copy</title>{PROSE}{PROSE}"
    pages = {"/": linked(paths), "/old": old, "/zipped": zipped, "/copy": copy, "/copy2": copy, "/shell": shell}
    with Site(pages, robots=shell) as site:
        job = crawled(tmp_path / "job", site, f"text,markdown,structured,{kept}")
        asked = len(site.asked)
        before = [files_of(job, name)[1] for name in ("text", "structured")]
        assert again(job).startswith("0 pages")
        assert [files_of(job, name)[1] for name in ("text", "structured")] == before
        again(job, "--output", "text,structured", *(site.url(path) for path in pages))
        assert len(site.asked) == asked
    for name in ("text", "structured"):
        lines = files_of(job, name)[1].splitlines()
        assert sorted(lines[len(pages) :]) == sorted(lines[: len(pages)])
        assert len(lines) == 2 * len(pages)
    assert crawler("text", job, site.url("/never")).code == 1
    lock = JobLock(job)
    assert crawler("text", job).code == 2
    lock.release()


def test_a_page_whose_extraction_was_killed_gets_its_text(tmp_path: Path) -> None:
    """And its new row is the one that exports take; so does one that another extractor made."""
    with Site({"/": linked(["/a", "/b"]) + PROSE, "/a": PROSE, "/b": PROSE + PROSE}) as site:
        job = crawled(tmp_path / "job", site, "text,bodies")
    first = {row["url"]: row for row in rows_of(job)}
    killed, old = site.url("/a"), site.url("/b")
    with closing(Job(job, read_run(job).settings, 1.8e9)) as opened:
        for url, fault in ((killed, {"error": "its process was killed"}), (old, {"text": "", "extractor": "old 1"})):
            about = {key: first[url][key] for key in ("url", "fetched_at")}
            row = json.dumps(about | fault).encode() + b"\n"
            opened.keep_again(visit_name(**about), (Part(OUTPUTS.index("text") + 1, row),))
    assert again(job).startswith("2 pages ")
    assert {row["url"]: row for row in rows_of(job)[-2:]} == {url: first[url] for url in (killed, old)}
    with KeptParts(job, "text") as parts:
        assert [json.loads(parts.of(record)) for record in records(job)] == list(first.values())


def test_what_is_killed_goes_on_and_each_page_has_one_row(tmp_path: Path) -> None:
    """Of an output that the crawl did not keep."""
    pages = {f"/{number}": f"<title>{number}</title><h1>{number}</h1>{PROSE * 9}" for number in range(300)}
    with Site({"/": linked(pages), **pages}) as site:
        job = crawled(tmp_path / "job", site, "bodies")
    text = job / "text" / "text-000001.jsonl"
    for size in (20_000, 500_000):
        with running("text", job, "--output", "text,markdown") as process:
            wait_until(lambda: text.exists() and text.stat().st_size > size, "some rows are there")  # noqa: B023
            process.kill()
            process.wait()
        os.truncate(text, text.stat().st_size - 5_000)  # the power fails, too
        assert crawler("verify", job).code == 0
    again(job, "--output", "text,markdown")
    found = sorted(row["url"] for row in rows_of(job))
    assert found == sorted(site.url(path) for path in ("/", *pages))
    assert len((job / "markdown" / "index.jsonl").read_bytes().splitlines()) == len(found)
    assert all(row["text"] for row in rows_of(job) if row["url"] != site.url("/"))


def test_an_answer_in_markdown_is_taken_again_as_it_is(tmp_path: Path) -> None:
    async def markdown(_: web.Request) -> web.Response:
        return web.Response(text="# Geese\n\nThey fly.\n", content_type="text/markdown")

    with Site({"/": linked(["/m"]) + PROSE, "/m": markdown}) as site:
        job = crawled(tmp_path / "job", site, "bodies")
    assert again(job, "--output", "text,markdown").startswith("2 pages")
    (row,) = (row for row in rows_of(job) if row["url"] == site.url("/m"))
    assert (row["markdown"], row["extractor"]) == ("# Geese\n\nThey fly.\n", "markdown")
