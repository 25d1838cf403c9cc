"""Looking at a crawl from beside it: records as they come, hosts, and all that is known of one URL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from crawler.inspect.host_table import HostsAsked, Table
from crawler.job.output.reverse_reader import last_record
from crawler.service.api import MOST_TABLES, Api
from tests.asked import enters, opened
from tests.jobs import OPTIONS, PAGES, explain, killed_job, rows, verify
from tests.program import crawler, running, wait_until
from tests.site import Site, tree


def test_the_last_record_of_a_url_is_found_and_no_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    assert list(last_record(path, "http://h.test/")) == []
    urls = ["http://h.test/a", "http://h.test/b", "http://h.test/a", "http://h.test/c"]
    text = b"".join(
        b'{"url":"%s","outcome":"failed","n":%d}\n' % (url.encode(), number) for number, url in enumerate(urls)
    )
    for piece in (1, 5, 30, 4096):
        for torn in (b"", b'{"url":"http://h.test/a","n":4}'):
            path.write_bytes(text + torn)
            for url, number in (("http://h.test/a", 2), ("http://h.test/b", 1), ("http://h.test/c", 3)):
                found = {"url": url, "outcome": "failed", "n": number}
                assert [each for each in last_record(path, url, piece) if each] == [found]
            assert [each for each in last_record(path, "http://h.test/", piece) if each] == []


class Counted:
    """A view of a job without hosts; ``looks`` counts how often it was read."""

    def __init__(self) -> None:
        self.looks = 0

    async def hosts(self, asked: HostsAsked) -> Table:
        self.looks += 1
        await asyncio.sleep(0.01)
        return Table(0, [])


async def test_one_reading_of_the_hosts_serves_all_who_ask_the_same_at_once() -> None:
    view: Any = Counted()
    api = Api(view)
    (hosts,) = [route.handler for route in api.routes() if route.path == "/api/hosts"]

    async def ask(q: int) -> Any:
        answer: Any = await hosts(make_mocked_request("GET", f"/api/hosts?q={q}"))
        return json.loads(answer.text)

    assert await asyncio.gather(*(ask(1) for _ in range(20))) == [{"total": 0, "hosts": []}] * 20
    assert view.looks == 1
    for q in range(2 * MOST_TABLES):
        await ask(q)
    assert api.tables.cache_info().currsize == MOST_TABLES


def test_tail_follows_over_kills_and_shows_each_record_once(tmp_path: Path) -> None:
    with killed_job(tmp_path, 60) as made, running("tail", made.job, "--all", "--follow") as following:
        made.site.latency = 0.01
        words = (made.seeds, "--job", made.job, "--config", tmp_path / "often.toml", *OPTIONS)
        for _ in range(2):
            before = len(made.site.asked)
            with running(*words) as process:
                wait_until(lambda before=before: len(made.site.asked) > before + 8, "some pages")  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                process.wait()
        made.carries_on_to_the_end(made.job)
        shown = [following.stdout.readline() for _ in range(PAGES)]
        assert shown == (made.job / "pages.jsonl").read_bytes().splitlines(keepends=True)
        following.send_signal(signal.SIGINT)
        rest, said = following.communicate()
        assert (rest, said) == (b"", b"")
        assert following.returncode == 130


def get(address: str) -> Any:
    return json.loads(opened(address).read())


def status_of(request: str | urllib.request.Request) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        opened(request)
    with refused.value as answer:
        return answer.code, json.loads(answer.read())["error"]


def columns_that_sort(address: str) -> list[str]:
    """The columns of the page by which the crawl sorts its hosts, each tried."""
    with opened(address) as page:
        columns = re.findall(r'data-sort="(\w+)"', page.read().decode())
    for key in columns:
        rows = get(f"{address}api/hosts?sort={key}")["hosts"]
        known = [row[key] for row in rows if row[key] is not None]
        assert len(rows) == 3
        assert known == sorted(known, reverse=True), key
    return columns


def test_hosts_explain_and_urls_of_a_running_crawl(tmp_path: Path) -> None:
    over = threading.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(over.wait)
        return web.Response(text="at last", content_type="text/html")

    pages = {**tree(300), "/extra": "end", "/page/9": slow}
    with Site(pages, 3) as site, contextlib.ExitStack() as after:
        after.callback(over.set)
        (tmp_path / "seeds.txt").write_text("".join(site.url("/", host) + "\n" for host in range(3)))
        job = tmp_path / "job"
        words = (tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0.2", "--dashboard", "0")
        with running(*words, "--host-key", "origin", "--user-agent", "other/1", stdin=subprocess.DEVNULL) as process:
            address = enters(process.stderr)
            wait_until(lambda: len(site.asked) > 9, "the crawl is under way")
            table = get(f"{address}api/hosts?sort=host&order=asc&limit=2")
            assert table["total"] == 3
            assert [row["host"] for row in table["hosts"]] == sorted(site.hosts)[:2]
            assert "share" in columns_that_sort(address)
            assert get(f"{address}api/hosts?q={site.hosts[2]}&sort=pending")["hosts"][0]["host"] == site.hosts[2]
            row = get(f"{address}api/hosts/{urllib.parse.quote(site.hosts[0], safe='')}")
            assert row["robots"]["status"] == 404
            assert len(row["queue"]) in (row["pending"], row["pending"] + 1)
            assert {urllib.parse.urlsplit(record["url"]).netloc for record in row["recent"]} == {site.hosts[0]}
            explained = get(f"{address}api/explain?url={urllib.parse.quote(site.url('/page/3'), safe='')}")
            assert explained["href"] == explained["key"] == site.url("/page/3")
            said = {line["what"]: line["text"] for line in explained["lines"]}
            assert said["seen"].startswith("yes")
            assert {"pending", "in flight", "done"} & set(said)
            assert said["robots"] == "allowed (as 'other/1')"

            slow_one = site.url("/page/9")
            wait_until(lambda: slow_one in (job / "live.json").read_text(), "it is in flight")
            assert explain(job, slow_one)["place"]["in_flight_since"] is not None

            def post(body: str, **headers: str) -> urllib.request.Request:
                kind = {"Content-Type": "application/json"}
                return urllib.request.Request(f"{address}api/urls", body.encode(), {**kind, **headers})

            body = json.dumps({"urls": [site.url("/extra"), site.url("/"), "http://me:secret@other.test/", "nonsense"]})
            answer = json.loads(opened(post(body)).read())
            assert (answer["admitted"], answer["known"], answer["off_scope"]) == (1, 1, 1)
            assert [each["url"] for each in answer["rejected"]] == ["nonsense"]
            assert answer["credentials_dropped"] == 1
            assert status_of(post(body, Authorization="Bearer wrong"))[0] == 401
            assert status_of(post('{"urls": "http://h.test/"}'))[0] == 400
            assert status_of(post(json.dumps({"urls": ["x"] * 10_001})))[0] == 400
            assert status_of(f"{address}api/hosts?sort=colour")[0] == 400
            assert status_of(f"{address}api/hosts?limit=-1")[0] == 400
            assert status_of(f"{address}api/hosts/none.test:80")[0] == 404
            assert status_of(f"{address}api/explain")[0] == 400
            listed = json.loads(crawler("hosts", job, "--json").out)
            assert {row["host"] for row in listed["hosts"]} == set(site.hosts)
        assert (
            crawler("hosts", job, "--sort", "fetched", "--limit", "1").out.splitlines()[-1].startswith("1 of 3 hosts")
        )


def test_explain_judges_as_the_last_run_did_and_names_a_damaged_run_json(tmp_path: Path) -> None:
    with Site({"/": "x"}, robots="User-agent: strange\nDisallow: /\n") as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        job = tmp_path / "job"
        words = (tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0", "--quiet")
        crawler(*words, "--user-agent", "strange/2.0")
        assert [row["outcome"] for row in rows(job)] == ["excluded"]
        found = explain(job, site.url("/"))
        assert found["robots"].pop("until") > found["at"]
        assert found["robots"] == {
            "state": "disallowed",
            "agent": "strange/2.0",
            "reason": "disallowed by robots.txt",
            "last_answer": None,
            "copy_of": None,
            "cut": [],
            "expired": False,
            "fetching_since": None,
        }
        assert found["record"]["outcome"] == "excluded"
        path = job / "run.json"
        path.write_bytes(path.read_bytes()[:-3])
        said = "run.json: checksum does not match (offset 47): the defaults are used instead of the settings of the "
        said += "last run"
        for command in ("hosts", "stats", "report"):
            told = crawler(command, job, *(["--out", tmp_path / "report.html"] if command == "report" else []))
            assert (told.code, told.err) == (0, f"{job}: {said}\n")
        assert said.startswith(json.loads(crawler("hosts", job, "--json").out)["settings_fault"])
        lines = crawler("explain", job, site.url("/")).out.splitlines()
        assert [line for line in lines if "default" in line] == [
            f"settings: {said}",
            next(line for line in lines if line.startswith("host ") and line.endswith("gap 1 s by default")),
        ]
        assert verify(job).find("file-damaged", place=r"run\.json")
        assert crawler("repair", job).code == 0
        assert crawler("verify", job).code == 0


def test_the_settings_of_the_last_run_hold_no_token(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[dashboard]\ntoken = 'secret-that-is-long-enough'\n")
    (tmp_path / "seeds.txt").write_text("http://127.0.0.1:9/\n")
    crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job", "--config", config, "--max-time", "0.1", "--quiet")
    assert b"secret" not in (tmp_path / "job" / "run.json").read_bytes()
    assert b'"concurrency": 64' in (tmp_path / "job" / "run.json").read_bytes()
