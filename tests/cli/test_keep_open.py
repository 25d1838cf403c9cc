"""``--keep-open`` and ``--open``: the page of a crawl that has ended, and a browser that shows it."""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.asked import enters, rights
from tests.cli.test_dashboard_and_top import ask
from tests.program import PATIENCE, crawler, running, wait_until
from tests.site import Site, linked, tree

OPTIONS = ("--allow-private", "--delay", "0", "--contact", "x@example.org")
MEASURED = {"checkpoint", "disk_free_bytes"}  # at the time: an age, what is free


@pytest.fixture
def site() -> Iterator[Site]:
    with Site({**tree(6), "/": linked(["/page/1", "/page/2", "/gone"])}) as served:
        yield served


def seeds(site: Site, folder: Path) -> Path:
    path = folder / "seeds.txt"
    path.write_text(site.url("/") + "\n")
    return path


def told(process: Any, beginning: str) -> str:
    """The rest of the next line on standard error that begins so."""
    while line := process.stderr.readline().decode():
        if line.startswith(beginning):
            return line.removeprefix(beginning).strip()
    raise AssertionError(f"the program ended without a line {beginning!r}")


@contextlib.contextmanager
def listening(url: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/api/events", headers=rights(url))
        yield connection.getresponse()


def next_stats(stream: http.client.HTTPResponse) -> dict[str, Any]:
    """The statistics in the next message that has some."""
    while True:
        line = stream.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: ") and b'"stats"' in line:
            content: dict[str, Any] = json.loads(line.removeprefix(b"data: "))["stats"]
            return content


def test_the_page_stays_at_its_address_and_the_job_is_free(site: Site, tmp_path: Path) -> None:
    job = tmp_path / "job"
    with running(seeds(site, tmp_path), "--job", job, "--dashboard", "0", "--keep-open", *OPTIONS) as process:
        url = enters(process.stderr)
        assert told(process, "dashboard: ").startswith(url), "the same address"
        with listening(url) as stream:
            shown, stats = next_stats(stream), ask(url, "api/stats")
            stored = json.loads(crawler("stats", job, "--json").out)
            assert shown["pages_fetched"] == stats["pages_fetched"] == stored["pages_fetched"] == len(records(job))
            assert stats.keys() == stored.keys()
            # Some are known only of a run.
            differing = {name for name in stats if stored[name] not in (None, stats[name])}
            assert differing <= MEASURED, differing
            hosts = ask(url, "api/hosts")["hosts"]
            assert [row["host"] for row in hosts] == site.hosts
            assert ask(url, f"api/hosts/{site.hosts[0]}")["recent"]
            lines = ask(url, f"api/explain?url={site.url('/gone')}")["lines"]
            assert any(line["what"] == "done" for line in lines)
            assert len(ask(url, "api/changes")["changes"]) == len(records(job))
            wait_until(lambda: ask(url, "api/survey")["complete"], "all records are counted")
            assert ask(url, "api/survey")["records"] == len(records(job))
            assert ask(url, "api/job")["seeds"] == [site.url("/")]
            ask(url, "api/control", 409, b'{"do": "pause"}')
            assert crawler("verify", job).code == 0
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


def test_the_page_shows_the_next_crawl_of_the_job(site: Site, tmp_path: Path) -> None:
    job = tmp_path / "job"
    words = (seeds(site, tmp_path), "--job", job, *OPTIONS)
    with running(*words, "--dashboard", "0", "--keep-open", "--max-pages", "2", "--fail-on-limit") as process:
        url = enters(process.stderr)
        assert "/?token=" in told(process, "dashboard: ")
        before = ask(url, "api/stats")["pages_fetched"]
        assert crawler(*words, "--quiet").code == 0
        wait_until(lambda: ask(url, "api/stats")["pages_fetched"] == len(records(job)), "the page shows it")
        wait_until(lambda: ask(url, "api/survey")["records"] == len(records(job)), "its survey goes on")
        assert before < len(records(job))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 3, "the code is that of the crawl whose page it is"


def test_a_signal_ends_the_crawl_and_the_page(tmp_path: Path) -> None:
    with Site(tree(500), latency=0.05) as site:
        words = (seeds(site, tmp_path), "--job", tmp_path / "job", "--keep-open", *OPTIONS)
        with running(*words) as process:
            url = enters(process.stderr)
            wait_until(lambda: bool(ask(url, "api/stats")["pages_fetched"]), "the crawl is at work")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130


def test_who_stops_the_crawl_from_its_page_goes_on_looking(tmp_path: Path) -> None:
    with Site(tree(500), latency=0.05) as site:
        words = (seeds(site, tmp_path), "--job", tmp_path / "job", "--keep-open", *OPTIONS)
        with running(*words) as process:
            url = enters(process.stderr)
            wait_until(lambda: bool(ask(url, "api/stats")["pages_fetched"]), "the crawl is at work")
            link = f"{url}?token={(tmp_path / 'job' / 'dashboard-token').read_text().strip()}"
            assert crawler("dashboard", tmp_path / "job").out.split()[-1] == link
            assert ask(url, "api/control", 200, b'{"do": "stop"}') == {"done": True}
            told(process, "dashboard: ")
            assert ask(url, "api/stats")["state"] == "stopped"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def recording(folder: Path) -> tuple[dict[str, str], Path]:
    """An environment with a browser that only writes its command line, and where it does."""
    opened = folder / "opened"
    browser = script(folder / "browser", f'echo "$@" > "{opened}.part" && mv "{opened}.part" "{opened}"')
    return {**os.environ, "BROWSER": f"{browser} %s"}, opened


def check_led_to(link: str, opened: Path, directory: Path) -> Path:
    """Everybody sees the command line of the browser: it names a file that leads to the link, and no token."""
    way_in = directory / "open-dashboard.html"
    assert opened.read_text().strip() == way_in.absolute().as_uri()
    assert stat.S_IMODE(way_in.stat().st_mode) == 0o600
    assert f'content="0; url={html.escape(link)}"' in way_in.read_text()
    return way_in


@pytest.mark.parametrize("command", ["crawl", "demo"])
def test_the_browser_gets_a_file_that_leads_to_the_link_with_the_token(
    site: Site, tmp_path: Path, command: str
) -> None:
    environment, opened = recording(tmp_path)
    if command == "demo":
        words = ["demo", "--job", tmp_path / "job", "--open"]
    else:
        words = [seeds(site, tmp_path), "--job", tmp_path / "job", "--open", "--keep-open", *OPTIONS]
    with running(*words, env=environment) as process:
        link = told(process, "dashboard: ")
        assert "token=" in link
        wait_until(opened.exists, "the browser runs")
        way_in = check_led_to(link, opened, tmp_path / "job")
        if command == "crawl":
            told(process, "dashboard: ")
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        assert not way_in.exists()


def records(job: Path) -> list[Any]:
    return [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
