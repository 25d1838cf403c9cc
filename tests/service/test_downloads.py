"""Downloads that nobody reads, that are too many, or whose records turn out to be damaged on the way."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from crawler.base.settings.parts import DashboardSettings, Settings
from crawler.inspect.export.csv_file import csv_lines
from crawler.inspect.survey_reader import PIECE, RecordChoice, pieces
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.live_server import Dashboard
from crawler.service.job_survey import JobSurvey
from crawler.service.run_view import RunView
from crawler.service.survey_api import MOST, SurveyApi
from tests.job.metrics.samples import statistics

TOKEN = "a-token-for-these-tests"


def line(number: int, **more: Any) -> bytes:
    found = {"url": f"http://h.test/{number}", "status": 200, "error": None, "outcome": "fetched", "depth": 1}
    found |= {"via": "http://h.test/", "fetched_at": "2026-11-22T02:11:55.238Z", "content_type": "text/html"}
    found |= {"bytes": number, "links": 1, "title": "x" * 300}
    return json.dumps(found | more, separators=(",", ":")).encode() + b"\n"


async def _nothing(_: Any) -> None:
    return None


@asynccontextmanager
async def served(job: Path, share: float = 1.0) -> AsyncIterator[aiohttp.ClientSession]:
    """A dashboard over the records of a directory, all of which are final."""
    view = RunView(lambda: None, _nothing, Settings(), float)
    survey = JobSurvey(job, lambda: (job / "pages.jsonl").stat().st_size, share)
    feed = Feed(statistics, float)
    about = SurveyApi(view, survey, feed)
    board = Dashboard(DashboardSettings(listen="127.0.0.1:0"), feed, about.routes(), Access(TOKEN))
    url = await board.start()
    try:
        async with aiohttp.ClientSession(
            url,
            connector=aiohttp.TCPConnector(limit=0),
            read_bufsize=2**12,
            headers={"Authorization": f"Bearer {TOKEN}"},
        ) as client:
            yield client
    finally:
        await board.stop()
        await about.close()
        await view.close()


async def test_a_download_that_meets_damage_does_not_seem_whole(tmp_path: Path, caplog: Any) -> None:
    good = b"".join(line(number) for number in range(2 * PIECE // len(line(0))))
    (tmp_path / "pages.jsonl").write_bytes(good + b"\0" * 100 + b"\n" + good)
    async with served(tmp_path) as client:
        for name in ("records.jsonl", "records.csv"):
            async with client.get(f"/api/download/{name}") as response:
                assert response.status == 200
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()
    assert f"pages.jsonl: offset {len(good)}: not a record" in caplog.text


async def test_so_many_at_a_time_and_those_who_leave_make_room(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(b"".join(line(number) for number in range(40_000)))
    async with served(tmp_path) as client:
        async with AsyncExitStack() as stack:
            for _ in range(MOST):
                response = await stack.enter_async_context(client.get("/api/download/records.jsonl"))
                assert response.status == 200
            async with client.get("/api/download/records.jsonl") as response:
                assert response.status == 503
            async with client.head("/api/download/records.jsonl") as response:
                assert response.status == 200
        for _ in range(1_000):
            async with client.get("/api/download/records.jsonl?kind=host:other.test:80") as response:
                if response.status == 200:
                    assert await response.read() == b""
                    return
            await asyncio.sleep(0.01)
        raise AssertionError("those who left keep their places")


async def test_what_cannot_be_made_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(line(1))
    async with served(tmp_path) as client:
        async with client.get("/api/download/report.html") as response:
            assert response.status == 500
            error = (await response.json())["error"]
            assert str(tmp_path) not in error
        async with client.get("/api/download/hosts.csv") as response:
            assert response.status == 503


def test_what_begins_like_a_formula_is_text_for_a_spreadsheet() -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", 'a,"b"\n=c', "", "http://h.test/=1"]
    rows = [{"text": text, "number": -1.5, "truth": True, "counts": {"dns": 2, "timeout": 1}} for text in texts]
    made = csv_lines(("text", "number", "truth", "counts", "missing"), rows, heading=True).decode("utf-8")
    head, *found = csv.reader(io.StringIO(made, newline=""))
    assert head == ["text", "number", "truth", "counts", "missing"]
    assert [row[0] for row in found] == [f"'{text}" for text in texts[:8]] + texts[8:]
    assert {tuple(row[1:]) for row in found} == {("-1.5", "true", "dns 2; timeout 1", "")}


def test_probes_are_only_in_all(tmp_path: Path) -> None:
    lines = [line(1), line(2, status=404, probe=True), line(3, status=404), line(4, outcome="soft404")]
    (tmp_path / "pages.jsonl").write_bytes(b"".join(lines))

    def chosen(kind: str) -> list[bytes]:
        (found,) = pieces(RecordChoice.parse(kind), tmp_path, len(b"".join(lines)))
        return [each for each, _ in found]

    assert chosen("all") == lines
    assert chosen("broken") == lines[2:]
    assert chosen("host:H.test:80") == [lines[0], *lines[2:]]
    assert chosen("failed") == chosen("host:h.test:81") == []
