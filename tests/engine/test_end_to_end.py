"""The main job on small real sites: crawl, stop, carry on, and what stands in the output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.engine.run import GRACE
from tests.program import crawler, running, wait_until
from tests.site import Handler, Site, linked, tree

FAST = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "8")


def rows(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]


def outcomes(job: Path) -> dict[str, str]:
    found = rows(job)
    repeated = [url for url, times in Counter(row["url"] for row in found).items() if times > 1]
    assert not repeated, "a page stands twice in the output"
    return {row["url"]: row["outcome"] for row in found}


def seeds(directory: Path, *urls: str) -> Path:
    path = directory / "seeds.txt"
    path.write_text("".join(f"{url}\n" for url in urls))
    return path


def test_every_page_of_a_site_on_several_hosts_is_fetched_once(tmp_path: Path) -> None:
    with Site(tree(80), ports=3) as site:
        everywhere = [site.url("/", host) for host in range(3)]
        job = tmp_path / "job"
        ran = crawler(seeds(tmp_path, *everywhere, "# a comment", ""), "--job", job, *FAST)
        assert ran.code == 0, ran.err
        wanted = {site.url(path, host) for path in tree(80) for host in range(3)}
        assert outcomes(job) == dict.fromkeys(wanted, "fetched")
        assert Counter(site.pages_asked()) == Counter(wanted)
        row = next(row for row in rows(job) if row["url"] == site.url("/page/1"))
        assert row["depth"] == 1
        assert row["via"] == site.url("/")
        assert row["status"] == 200
        assert row["links"] == 8
        assert row["content_type"] == "text/html"
        assert row["bytes"] == len(tree(80)["/page/1"])

        again = crawler(tmp_path / "seeds.txt", "--job", job, *FAST)
        assert again.code == 0
        assert len(site.pages_asked()) == len(wanted), "a crawl that has ended asks nothing more"


@pytest.mark.parametrize(
    ("limit", "code", "with_flag"),
    [(("--max-pages", "2"), 0, 3), (("--max-time", "0.2"), 0, 3), (("--min-free", f"{2**52}"), 3, 3)],
)
def test_a_limit_of_the_user_is_a_good_end_and_a_full_disk_is_not(
    tmp_path: Path, limit: tuple[str, ...], code: int, with_flag: int
) -> None:
    config = tmp_path / "fails.toml"
    config.write_text("[crawl]\nfail_on_limit = true\n")
    with Site(tree(60), latency=0.05) as site:
        words = (seeds(tmp_path, site.url("/")), *FAST, "--quiet", *limit)
        for job, more in (("a", ()), ("b", ("--fail-on-limit",)), ("c", ("--config", config))):
            ran = crawler(*words, "--job", tmp_path / job, *more)
            assert ran.code == (with_flag if more else code), ran.err


def test_sigint_finishes_what_is_in_flight_and_exits_130(tmp_path: Path) -> None:
    with Site(tree(120), latency=0.03) as site:
        job, start = tmp_path / "job", seeds(tmp_path, site.url("/"))
        with running(start, "--job", job, *FAST, "--quiet") as process:
            wait_until(lambda: len(site.asked) > 20, "the crawl is under way")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate()
        assert process.returncode == 130, err
        before = len(site.pages_asked())
        assert before == len(rows(job)), "what was in flight was finished"
        assert crawler(start, "--job", job, *FAST).code == 0
        assert len(outcomes(job)) == 120
        assert len(site.pages_asked()) == 120, "nothing was asked for twice"


def test_a_second_sigint_leaves_at_once_and_loses_nothing(tmp_path: Path) -> None:
    begun: list[str] = []

    async def never(request: web.Request) -> web.StreamResponse:
        begun.append(request.path)
        await asyncio.Event().wait()
        raise AssertionError

    pages: dict[str, str | Handler] = {**tree(60)}
    pages |= dict.fromkeys((f"/page/{number}" for number in range(10, 60)), never)
    with Site(pages) as site:
        start = seeds(tmp_path, site.url("/"))
        # Requests in flight get some seconds. Where this process stood still for as long, the second signal came after
        # the end, and the test has seen nothing.
        for attempt in range(20):
            job = tmp_path / f"job-{attempt}"
            begun.clear()
            with running(start, "--job", job, *FAST, "--quiet") as process:
                wait_until(lambda: len(begun) > 3, "requests are in flight that never end")
                process.send_signal(signal.SIGINT)
                first = time.monotonic()
                wait_until(lambda: b"to quit" in _peek(process) or process.poll() is not None, "the first is answered")
                process.send_signal(signal.SIGINT)
                in_time = time.monotonic() - first < 0.8 * GRACE
                process.communicate()
            if in_time:
                break
        assert in_time, "the machine never let both signals through in time"
        assert process.returncode == 130
        assert not list((job / "seen").glob("generation-*")), "no checkpoint was written"
        pages |= tree(60)
        assert crawler(start, "--job", job, *FAST).code == 0
        assert len(outcomes(job)) == 60


def _peek(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    return process.stderr.read() or b""


def test_seeds_are_read_from_standard_input_while_the_crawl_runs(tmp_path: Path) -> None:
    with Site({"/a": linked(["/b"]), "/b": "b", "/c": "c"}) as site:
        job = tmp_path / "job"
        with running("-", "--job", job, *FAST, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(f"{site.url('/a')}\n".encode())
            process.stdin.flush()
            wait_until(lambda: site.count("/b") == 1, "the first seed is crawled before the input ends")
            assert process.poll() is None
            process.stdin.write(f"{site.url('/c')}\n".encode())
            process.stdin.close()
            process.stdin = None
            process.communicate()
        assert process.returncode == 0
        assert set(outcomes(job)) == {site.url(path) for path in ("/a", "/b", "/c")}
        assert crawler("-", "--job", job, *FAST, stdin="").code == 0, "resuming needs no seeds"
