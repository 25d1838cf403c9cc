"""What the dashboard says of a job's records: during a crawl, after it, from beside it, and after all that can happen
to a job in between."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from crawler.job.output import lines_of
from crawler.service.job_survey import JobSurvey
from tests.asked import asked, free_port, knows, opened
from tests.cli.test_keep_open import told
from tests.job.survey.counting import agree, broken, host_of
from tests.jobs import rows
from tests.program import crawler, running, wait_until
from tests.site import Site, linked, tree

OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--quiet", "--capacity", "64")
CONFIG = "[retry]\ntries = 2\nfirst_wait = 0.05\n[politeness]\nbackoff_first = 0.05\n"
FILES = ("records.jsonl", "records.csv", "hosts.csv", "report.html")
FORMULA = "=HYPERLINK('http://h.test/')"


async def _moved(request: web.Request) -> web.Response:
    raise web.HTTPFound("/docs/a.html")


async def _fails(request: web.Request) -> web.Response:
    return web.Response(status=500, text="no", content_type="text/html")


async def _cut_off(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


LONG = "/long/" + "y" * 1_500 + "/page"
PAGES: dict[str, Any] = tree(40) | {
    "/": linked(["/page/1", "/docs/a.html", "/docs/b/c.html", "/moved", "/fails", "/cut", "/lost", "/private/x", LONG]),
    "/docs/a.html": f"<!doctype html><title>{FORMULA}</title><a href='/docs/b/d/e.html?x=/y/'>x</a>",
    "/docs/b/c.html": linked(["/", "/gone?a=1"]),
    "/docs/b/d/e.html?x=/y/": linked(["/%3Cb%3E/x", "/a%0Ab/c"]),
    "/moved": _moved,
    "/fails": _fails,
    "/cut": _cut_off,
    LONG: linked(["/"]),
}
ROBOTS = "User-agent: *\nDisallow: /private/\n"


@contextmanager
def made_site() -> Iterator[Site]:
    with Site(PAGES, ports=2, robots=ROBOTS) as site:
        yield site


def options(directory: Path, site: Site, more: str = "") -> list[str | Path]:
    seeds, config = directory / "seeds.txt", directory / "crawl.toml"
    seeds.write_text(f"{site.url('/')}\n{site.url('/', 1)}\nhttp://127.0.0.1:{free_port()}/dead\n")
    config.write_text(CONFIG + more)
    return [seeds, "--job", directory / "job", "--config", config, *OPTIONS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that a crawl with a dashboard has ended."""
    directory = tmp_path_factory.mktemp("made")
    with made_site() as site:
        ran = crawler(*options(directory, site), "--dashboard", "0")
    assert ran.code == 0, ran.err
    records = rows(directory / "job")
    outcomes = {each["outcome"] for each in records}
    assert {"fetched", "redirect", "failed", "excluded"} <= outcomes
    assert {200, 302, 404, 500} <= {each["status"] for each in records}
    return directory / "job"


def survey_of(job: Path) -> dict[str, Any]:
    """What a dashboard beside the job says."""

    async def ask() -> dict[str, Any]:
        keeper = JobSurvey(job)
        counting = asyncio.create_task(keeper.keep())
        try:
            for _ in range(6_000):
                if keeper.progress.complete or keeper.progress.fault is not None:
                    break
                await asyncio.sleep(0.01)
            answer = await keeper.answer()
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
            await keeper.close()
        found: dict[str, Any] = json.loads(answer.body)
        return found

    return asyncio.run(ask())


def asked_json(url: str) -> Any:
    with opened(url) as answer:
        return json.load(answer)


@contextmanager
def attached(job: Path, *words: str) -> Iterator[tuple[str, Any]]:
    """``crawler dashboard`` of the job: its address, and the process."""
    port = free_port()
    with running("dashboard", job, "--listen", str(port), *words) as process:
        url = knows(f"http://127.0.0.1:{port}/", job)
        wait_until(lambda: asked(f"{url}healthz")[0] != 0, "the dashboard")
        wait_until(lambda: bool(asked_json(f"{url}api/survey")["complete"]), "all records counted")
        yield url, process


def test_every_number_is_that_of_pages_jsonl_while_the_page_of_an_ended_crawl_is_kept(tmp_path: Path) -> None:
    port = free_port()
    url = knows(f"http://127.0.0.1:{port}/", tmp_path / "job")
    with made_site() as site, contextlib.ExitStack() as stack:
        words = [word for word in options(tmp_path, site) if word != "--quiet"]
        process = stack.enter_context(running(*words, "--dashboard", str(port), "--keep-open"))
        told(process, "the crawl has released the job")
        told(process, "dashboard: ")
        wait_until(lambda: bool(asked_json(f"{url}api/survey")["complete"]), "all records counted")
        records, answer, stats = rows(tmp_path / "job"), asked_json(f"{url}api/survey"), asked_json(f"{url}api/stats")
        about = asked_json(f"{url}api/job")
        agree(answer, records)
        for column, key in {"failed": "pages_failed", "redirects": "pages_redirected"}.items():
            assert sum(host[column] for host in answer["hosts"]) == stats[key]
        assert about["name"] == "job"
        assert sorted(about["seeds"]) == sorted(
            each["url"] for each in records if each["depth"] == 0 and each["via"] is None
        )
        assert (about["seed_count"], about["scope"], about["token_file"]) == (3, "host", "dashboard-token")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_dashboard_beside_the_job_says_the_same_and_writes_nothing(made: Path) -> None:
    def looks() -> dict[str, tuple[int, int]]:
        found = [
            path for path in made.rglob("*") if path.is_file() and path.name != "LOG" and "store" not in path.parts
        ]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    before, records = looks(), rows(made)
    with attached(made) as (url, _):
        agree(asked_json(f"{url}api/survey"), records)
        job = asked_json(f"{url}api/job")
        assert sorted(map(host_of, job["seeds"])) == sorted(
            host_of(each["url"]) for each in records if each["depth"] == 0
        )
        for name in FILES:
            assert asked(f"{url}api/download/{name}")[0] == 200
        assert asked_json(f"{url}api/hosts?sort=work")["total"] == 3
    assert looks() == before


def test_a_crawl_that_was_killed_goes_on_and_its_numbers_are_those_of_its_records(tmp_path: Path) -> None:
    more = "[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.1\n[output]\npages_size = 3000\n"
    with Site(PAGES, ports=2, robots=ROBOTS, latency=0.02) as site:
        words = options(tmp_path, site, more)
        job = tmp_path / "job"
        with running(*words, "--dashboard", "0") as process:
            wait_until(lambda: (job / "pages-000003.jsonl").exists() or len(rows(job)) > 30, "some records")
            process.send_signal(signal.SIGKILL)
            process.wait()
        ran = crawler(*words, "--dashboard", "0", "--max-pages", "60")
        assert ran.code == 0, ran.err
        ran = crawler(*words, "--dashboard", "0")
        assert ran.code == 0, ran.err
    assert list(job.glob("pages-*.zst")), "files that are full were compressed"
    agree(survey_of(job), rows(job))


def test_listeners_hear_of_every_record_once(tmp_path: Path) -> None:
    port, heard = free_port(), list[dict[str, Any]]()
    pages = tree(60)

    def listen(url: str) -> None:
        with opened(f"{url}api/events") as stream:
            heard.extend(json.loads(line[6:]) for line in stream if line.startswith(b"data: "))

    with Site(pages) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        words: list[str | Path] = [tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS, "--rate", "15"]
        with running(*words, "--dashboard", str(port)) as process:
            url = knows(f"http://127.0.0.1:{port}/", tmp_path / "job")
            wait_until(lambda: asked(f"{url}api/stats")[0] == 200, "the dashboard")
            listener = threading.Thread(target=listen, args=(url,))
            listener.start()
            assert process.wait() == 0
            listener.join()
    ticks = [each for each in heard if "records_new" in each]
    records = rows(tmp_path / "job")
    told = sum(each["records_new"] for each in ticks)
    assert len(records) - 20 <= told <= len(records), "all but those before the listener came"
    numbers = [row["number"] for each in ticks for row in reversed(each["records"])]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == len(records)
    assert max(len(each["records"]) for each in ticks) <= 8
    assert [each["answered_429"] for each in ticks][-1] == sum(row["status"] == 429 for row in records)
    for each in ticks:
        assert len(each["records"]) == min(8, each["records_new"])
    for row in (row for each in ticks for row in each["records"]):
        assert row["url"] == records[row["number"] - 1]["url"]


def lines(job: Path, kind: str) -> list[bytes]:
    def fits(each: dict[str, Any]) -> bool:
        if kind == "broken":
            return broken(each)
        return kind in ("all", each["outcome"], f"host:{host_of(each['url'])}")

    return [line for _, line in lines_of(job / "pages.jsonl") if fits(json.loads(line))]


def test_downloads_hold_what_the_files_of_the_job_hold(made: Path) -> None:
    records = rows(made)
    with attached(made) as (url, _):
        hosts = sorted({host_of(each["url"]) for each in records})
        for kind in ("all", "failed", "broken", *(f"host:{host}" for host in hosts)):
            _, body = asked(f"{url}api/download/records.jsonl?kind={quote(kind)}")
            assert body == b"".join(lines(made, kind))
            _, body = asked(f"{url}api/download/records.csv?kind={quote(kind)}")
            table = list(csv.DictReader(io.StringIO(body.decode("utf-8"), newline="")))
            expected = [json.loads(line) for line in lines(made, kind)]
            assert [each["url"] for each in table] == [each["url"] for each in expected]
            assert [each["status"] for each in table] == [str(each["status"] or "") for each in expected]
            assert [each["bytes"] for each in table] == [
                "" if each["bytes"] is None else str(each["bytes"]) for each in expected
            ]
        titles = {each["title"] for each in records if each.get("title", "").startswith("=")}
        assert titles == {FORMULA}
        _, body = asked(f"{url}api/download/records.csv")
        assert {each["title"] for each in csv.DictReader(io.StringIO(body.decode(), newline=""))} >= {f"'{FORMULA}"}
        _, body = asked(f"{url}api/download/hosts.csv")
        named = {each["host"]: each for each in csv.DictReader(io.StringIO(body.decode(), newline=""))}
        shown = {each["host"]: each for each in asked_json(f"{url}api/hosts")["hosts"]}
        assert list(named) == sorted(shown)
        for name, row in shown.items():
            assert (int(named[name]["fetched"]), int(named[name]["failed"])) == (row["fetched"], row["failed"])
        _, body = asked(f"{url}api/download/report.html")
        assert body.startswith(b"<!doctype html>\n<!-- a report by crawler -->")
        assert asked(f"{url}api/download/records.csv?kind=other")[0] == 400
        assert asked(f"{url}api/download/records.csv?kind=host:")[0] == 400


def test_damaged_records_are_told_and_no_download_of_them_seems_whole(made: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    shutil.copytree(made, job)
    text = (job / "pages.jsonl").read_bytes()
    places = [offset for offset, _ in lines_of(job / "pages.jsonl")]
    at = places[len(places) // 2]
    (job / "pages.jsonl").write_bytes(text[:at] + bytes(10) + text[at + 10 :])
    told = survey_of(job)
    assert told["complete"] is False
    assert f"pages.jsonl: offset {at}: not a record" in told["fault"]
    port = free_port()
    with running("dashboard", job, "--listen", str(port)) as process:
        url = knows(f"http://127.0.0.1:{port}/", job)
        wait_until(lambda: asked(f"{url}healthz")[0] != 0, "the dashboard")
        status, body = asked(f"{url}api/download/records.jsonl")
        assert status == 500
        assert str(tmp_path) not in body.decode()
        wait_until(lambda: asked_json(f"{url}api/survey")["fault"] is not None, "the fault")
        process.terminate()
        _, _said = process.communicate()
