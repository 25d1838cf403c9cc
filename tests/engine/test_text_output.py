"""The main text that a crawl keeps: a row for each page, made while the host of the page is asked for the next."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.processes.forker import Bytes
from crawler.base.settings.parts import CrawlSettings, OutputSettings
from crawler.engine.keepers import TextKeeper
from crawler.engine.lifecycle import Stop
from crawler.engine.run import GRACE, Run
from crawler.engine.visit import LARGE
from crawler.frontier.entry import Entry
from crawler.frontier.host import decode_host
from crawler.job.job import Job
from crawler.job.records import Outcome, PageRecord, Part
from crawler.job.verdict import Draft
from crawler.web.extract.page_text import Extracted, Forms, NoText
from crawler.web.fetch import RawExchange, Response
from tests.faulty_disk import PowerCutError
from tests.laboratory import SETTINGS, START, Laboratory, links
from tests.outputs import parts_of
from tests.simulated_web import SimulatedWeb, page, redirect

A = "http://a.test"
KEEPING = replace(SETTINGS, output=OutputSettings(("text",)))
SECONDS = 0.2  # of a response
PAGES = 12


@dataclass
class Slow:
    """Takes a while for each page, any number at a time."""

    seconds: float = 0.0
    failed: int = 0
    under_way: int = 0
    most: int = 0

    async def extract(self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms) -> Extracted | NoText:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        if b"<p>bad" in body:
            self.failed += 1
            return NoText("it takes too much")
        text = f"{host} text {len(body)}" if forms & Forms.TEXT else None
        return Extracted(text, None, b'{"canonical":"there"}' if forms & Forms.STRUCTURED else None, "de")

    def close(self) -> None:
        """Nothing runs beside."""


def site(pages: int = PAGES, host: str = A) -> dict[str, Any]:
    """A page that links to all others."""
    return {f"{host}/": links([f"/{number}" for number in range(1, pages)])} | {
        f"{host}/{number}": f"<p>page {number} of {host}" for number in range(1, pages)
    }


def laboratory(directory: Path, texts: Slow, pages: dict[str, Any] | None = None, **politeness: Any) -> Laboratory:
    made = Laboratory(directory / "job", pages or site(), KEEPING, seconds=SECONDS, texts=texts)
    return made.with_politeness(**politeness) if politeness else made


def rows_of(job: Path, name: str = "text") -> dict[str, dict[str, Any]]:
    """The rows, by URL: each page that has one has one."""
    rows = {url: json.loads(part) for url, part in parts_of(job, name).items()}
    assert all(row["url"] == url for url, row in rows.items())
    return rows


def test_a_page_with_a_good_status_has_a_row_and_nothing_else_has(tmp_path: Path) -> None:
    pages = {
        f"{A}/": '<html lang="de"><title>Home</title>' + links(["/moved", "/gone", "/image", "/bad", "/cut"]),
        f"{A}/moved": redirect(f"{A}/there"),
        f"{A}/there": "<p>there",
        f"{A}/gone": replace(page("<p>gone"), status=404),
        f"{A}/image": replace(page("PNG"), content_type="image/png"),
        f"{A}/bad": "<p>bad",
        f"{A}/cut": replace(page("<p>half"), truncated="gzip", note="gzip ends too early"),
    }
    texts = Slow()
    lab = laboratory(tmp_path, texts, pages)
    stats: dict[str, Any] = {}

    async def look(run: Run, job: Job) -> None:
        for _ in range(1_000):
            await asyncio.sleep(0.1)
            stats.update(run.stats())

    assert lab.run(f"{A}/", during=look) is Stop.FINISHED
    rows = rows_of(lab.directory)
    assert set(rows) == {f"{A}/", f"{A}/there", f"{A}/bad", f"{A}/cut"}
    assert {url for url, row in rows.items() if row.get("cut")} == {f"{A}/cut"}
    home = rows[f"{A}/"]
    assert (home["title"], home["language"]) == ("Home", "de")
    assert home["text"] == f"a.test:80 text {len(pages[f'{A}/'])}"
    records = {record["url"]: record for record in lab.records()}
    assert home["fetched_at"] == records[f"{A}/"]["fetched_at"]
    assert {url for url, record in records.items() if record.get("detected_language") == "de"} == {*rows} - {f"{A}/bad"}
    bad = rows[f"{A}/bad"]
    assert "text" not in bad
    assert (records[f"{A}/bad"]["outcome"], records[f"{A}/bad"]["error"]) == ("fetched", None)
    assert [url for url, record in records.items() if record.get("links_cut")] == [f"{A}/cut"]
    assert (stats["text_failed"], stats["pages_cut"]) == (1, 1)


@pytest.mark.parametrize("keep", [("structured",), ("text", "structured")], ids=["alone", "with text"])
def test_each_page_with_a_text_has_a_row_of_structured_data(tmp_path: Path, keep: tuple[str, ...]) -> None:
    pages = {
        f"{A}/": links(["/bad", "/cut", "/gone"]),
        f"{A}/gone": replace(page("<p>gone"), status=404),
        f"{A}/bad": "<p>bad",
        f"{A}/cut": replace(page("<p>half"), truncated="gzip", note="gzip ends too early"),
    }
    lab = laboratory(tmp_path, Slow(), pages)
    lab.settings = replace(SETTINGS, output=OutputSettings(keep, fields=()))
    assert lab.run(f"{A}/") is Stop.FINISHED
    rows = rows_of(lab.directory, "structured")
    assert {url: sorted({*row} - {"url", "fetched_at"}) for url, row in rows.items()} == {
        f"{A}/": ["canonical"],
        f"{A}/bad": ["error"],
        f"{A}/cut": ["canonical", "cut"],
    }
    for record in lab.records():
        assert "detected_language" not in record
        assert sorted(record.get("kept", {})) == (sorted(keep) if record["url"] in rows else [])


@pytest.mark.parametrize(
    ("outcome", "status", "content_type", "gone"),
    [
        (Outcome.FETCHED, 404, "text/html", True),
        (Outcome.FETCHED, 200, "text/plain", True),
        (Outcome.REDIRECT, 302, "text/html", True),
        (Outcome.SOFT404, 200, "text/html", True),
        (Outcome.FETCHED, 304, None, False),
        (Outcome.FETCHED, 200, "text/html", False),
        (Outcome.FETCHED, 403, "text/html", False),
        (Outcome.BLOCKED, 200, "text/html", False),
        (Outcome.FAILED, 503, "text/html", False),
        (Outcome.FAILED, None, None, False),
    ],
)
def test_a_visit_says_that_a_page_has_no_text_any_more(
    outcome: Outcome, status: int | None, content_type: str | None, gone: bool
) -> None:
    for revisit in (True, False):
        record = PageRecord(Entry(f"{A}/", 0, revisit=revisit), outcome, START, status, content_type=content_type)
        assert bool(TextKeeper(Slow(), Forms(7)).gone(Draft(record))) is (gone and revisit)


def test_only_outputs_that_are_kept_say_that_a_page_is_gone() -> None:
    record = PageRecord(Entry(f"{A}/", 0, revisit=True), Outcome.FETCHED, START, 404)
    for forms, kinds in ((Forms.STRUCTURED, [5]), (Forms.MARKDOWN, [3]), (Forms(7), [3, 5])):
        assert [part.kind for part in TextKeeper(Slow(), forms).gone(Draft(record)) if isinstance(part, Part)] == kinds


@pytest.mark.parametrize("seconds", [0.5, 30.0], ids=["short", "slots are lent"])
def test_a_host_is_asked_as_fast_as_if_its_text_were_not_extracted(tmp_path: Path, seconds: float) -> None:
    lab = laboratory(tmp_path, Slow(seconds), delay=1.0)
    lab.settings = replace(lab.settings, crawl=CrawlSettings(concurrency=4 * PAGES, scope="any"))
    assert lab.run(f"{A}/") is Stop.FINISHED
    first, *others = lab.requests_to("a.test")
    begins = [each.begin for each in others]
    assert begins[0] - first.end >= seconds, "the links of a page are known when it is finished"
    assert [later - earlier for earlier, later in pairwise(begins)] == pytest.approx([1.0 + SECONDS] * (PAGES - 2))
    host = decode_host("a.test:80", lab.store.get(Family.HOSTS, b"a.test:80") or b"")
    assert host.politeness.latency == pytest.approx(SECONDS)
    assert host.tally.seconds == pytest.approx(SECONDS * PAGES)
    assert len(rows_of(lab.directory)) == PAGES


class Counted(bytes):
    """Counts the bodies that are in memory."""

    there: ClassVar[int] = 0

    def __new__(cls, data: bytes) -> Self:
        cls.there += 1
        return super().__new__(cls, data)

    def __del__(self) -> None:
        type(self).there -= 1


@pytest.mark.parametrize("kept", [("text",), ("warc", "text", "bodies")], ids=["text alone", "with all of the answer"])
def test_large_pages_that_wait_for_their_text_are_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: tuple[str, ...]
) -> None:
    """So they keep the memory of bodies from no other host."""
    released, most = list[str](), 0
    wanted = dict[str, bytes]()

    def large(path: str) -> Callable[[Mapping[str, str]], Response]:
        wanted[f"{A}{path}"] = f"<p>{path}".encode() + b" " * LARGE

        def answer(_: Mapping[str, str]) -> Response:
            body = Counted(wanted[f"{A}{path}"])
            raw = RawExchange(b"GET", b"HTTP/1.1 200 OK\r\n\r\n", body) if len(kept) > 1 else None
            return replace(page(""), body=body, received=len(body), raw=raw)

        return answer

    class Looking(Slow):
        async def extract(
            self, host: str, body: Bytes, charset: str | None, url: str, forms: Forms
        ) -> Extracted | NoText:
            nonlocal most
            await asyncio.sleep(100.0)  # all are here
            most = max(most, Counted.there)
            return Extracted(str(body[:5], "ascii"))

    pages = site(7) | {f"{A}/{number}": large(f"/{number}") for number in range(1, 7)}
    lab = laboratory(tmp_path, Looking(), pages, delay=0.1)
    crawl = CrawlSettings(concurrency=32, scope="any")
    lab.settings = replace(lab.settings, output=OutputSettings(kept), crawl=crawl)
    monkeypatch.setattr(SimulatedWeb, "let_go", lambda web: released.append("a body"))
    assert lab.run(f"{A}/") is Stop.FINISHED
    assert (len(released), most, Counted.there) == (6, 0, 0)
    rows = rows_of(lab.directory)
    assert {rows[href]["text"] for href in wanted} == {f"<p>/{number}" for number in range(1, 7)}
    if len(kept) > 1:
        records = {record["url"]: record for record in lab.records()}
        assert all((lab.directory / records[href]["body"]).read_bytes() == body for href, body in wanted.items())
        archived = b"".join(gzip.decompress(file.read_bytes()) for file in sorted(lab.directory.glob("**/*.warc.gz")))
        assert all(body in archived for body in wanted.values())


@pytest.mark.parametrize("killed", [True, False])
def test_what_is_extracted_when_the_crawl_ends_is_fetched_again_and_has_one_row(tmp_path: Path, killed: bool) -> None:
    lab = laboratory(tmp_path, Slow(20.0), delay=1.0)

    async def end(run: Run, job: Job) -> None:
        await asyncio.sleep(23.0)
        assert len(lab.asked) > 2
        if killed:
            raise PowerCutError
        run.stop()

    if killed:
        with pytest.raises(PowerCutError):
            lab.run(f"{A}/", during=end)
    else:
        assert lab.run(f"{A}/", during=end) is Stop.INTERRUPTED
        assert lab.now - START <= 23.0 + GRACE + 1.0
    assert len(rows_of(lab.directory)) == 1
    assert lab.run() is Stop.FINISHED
    assert len(rows_of(lab.directory)) == len(lab.records()) == PAGES
