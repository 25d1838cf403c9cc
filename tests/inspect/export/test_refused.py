"""What refuses a use now is left out of exports, answers and copies, with all its visits, and is listed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiohttp import web

from crawler.cli import main
from tests.engine.test_directives import meta
from tests.program import crawler
from tests.site import Site, linked

NOAI = meta("robots", "noai")
BODY = f"<title>word</title><main><p>{'some words ' * 40}</main>"


async def not_modified(_: web.Request) -> web.Response:
    return web.Response(status=304)


async def gone(_: web.Request) -> web.Response:
    return web.Response(status=410)


# path -> the page at the first and the second visit, and whether it may be used then
VISITS: dict[str, tuple[str, Any, bool]] = {
    "/open": (BODY, BODY, True),
    "/never": (NOAI + BODY, NOAI + BODY, False),
    "/turned": (BODY, NOAI + BODY, False),
    "/granted": (NOAI + BODY, BODY, True),
    "/same": (NOAI + BODY, not_modified, False),
    "/gone": (NOAI + BODY, gone, False),
}
USABLE = {"/", *(path for path, (_, _, usable) in VISITS.items() if usable)}
REFUSED = VISITS.keys() - USABLE


class Job:
    def __init__(self, directory: Path, site: Site) -> None:
        self.directory = directory / "job"
        self._site = site

    def crawl(self) -> None:
        flags = ("--allow-private", "--delay", "0", "--capacity", "4096", "--output", "text,markdown,links,warc")
        ran = crawler(self._site.url("/"), "--job", self.directory, *flags)
        assert ran.code == 0, ran.err

    def path_of(self, record: Any) -> str:
        return str(record["url"]).removeprefix(self._site.url(""))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    pages: dict[str, Any] = {path: first for path, (first, _, _) in VISITS.items()}
    with Site(pages | {"/": linked(VISITS)}) as site:
        made = Job(tmp_path_factory.mktemp("refused"), site)
        made.crawl()
        site.pages = pages | {"/": linked(VISITS)} | {path: second for path, (_, second, _) in VISITS.items()}
        assert crawler("retry", made.directory, *(site.url(path) for path in VISITS)).code == 0
        made.crawl()
        return made


def test_exports_leave_out_all_visits_of_what_refuses_now(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allowed = ("--allowed", "ai-train,search")
    assert main(["export", str(job.directory), "--parquet", str(tmp_path / "parquet"), *allowed]) == 0
    for table in ("pages", "text"):
        found = pq.read_table(tmp_path / "parquet" / f"{table}.parquet").to_pylist()
        assert {job.path_of(row) for row in found} | {"/"} == USABLE
    records = pq.read_table(tmp_path / "parquet" / "pages.parquet").to_pylist()
    assert [dict(row["consent"] or {}) for row in records if job.path_of(row) == "/granted"] == [
        {"ai-input": "no", "ai-train": "no"},
        {},
    ]
    capsys.readouterr()
    assert main(["export", str(job.directory), "--csv", "-", *allowed]) == 0
    assert {job.path_of(row) for row in csv.DictReader(io.StringIO(capsys.readouterr().out))} == USABLE
    query = "SELECT DISTINCT url FROM records"
    assert main(["sql", str(job.directory), query, "--json", *allowed]) == 0
    assert {job.path_of(json.loads(line)) for line in capsys.readouterr().out.splitlines()} == USABLE
    assert main(["sql", str(job.directory), query, "--json", "--allowed", "archive"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(VISITS) + 1


def test_a_directory_of_markdown_is_brought_up_to_date(job: Job, tmp_path: Path) -> None:
    words = ["export", str(job.directory), "--markdown", str(tmp_path / "copy"), "--allowed", "ai-train"]
    for _ in range(2):
        assert main(words) == 0
        files = {path.stem for path in (tmp_path / "copy").rglob("*.md")}
        assert files >= {path.strip("/") for path in USABLE - {"/"}}
        assert not files & {path.strip("/") for path in REFUSED}
    assert main(words[:-2]) == 2  # it is no place for the others


@pytest.mark.parametrize("form", ["cdxj", "wacz"])
def test_an_archive_cannot_be_filtered(job: Job, tmp_path: Path, form: str) -> None:
    assert main(["export", str(job.directory), f"--{form}", str(tmp_path / f"a.{form}"), "--allowed", "tdm"]) == 2


def test_what_is_held_of_them_is_listed(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retract", str(job.directory), "--purpose", "ai-train"]) == 0
    assert {job.path_of({"url": line}) for line in capsys.readouterr().out.splitlines()} == REFUSED
    assert main(["retract", str(job.directory), "--purpose", "search,tdm"]) == 0
    assert capsys.readouterr().out == ""
