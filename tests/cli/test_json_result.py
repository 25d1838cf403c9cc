"""``--json`` of a crawl: what a script reads on standard output, and nothing else there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.job.live_status import read_live
from tests.program import PATIENCE, ROOT, Ran, crawler, running, wait_until
from tests.site import Site, linked, tree

FAST = ("--allow-private", "--delay", "0", "--json")
NOISY = "import os\n\ndef look(page):\n    print('seen', page.url)\n    os.system('echo seen')\n"


def said(ran: Ran) -> dict[str, Any]:
    (line,) = ran.out.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["exit"] == ran.code
    return found


def test_the_result_has_the_names_of_the_statistics(tmp_path: Path) -> None:
    job, code = tmp_path / "job", tmp_path / "noisy.py"
    code.write_text(NOISY)
    with Site(tree(9)) as site:
        words = (site.url("/"), "--job", job, *FAST, "--on-page", "noisy:look", "--fail-on-limit", "--max-pages")
        first = said(crawler(*words, "4", directory=tmp_path))
        assert (first["exit"], first["state"], first["stopped_by"]) == (3, "stopped", "max-pages")
        assert first["pages_fetched"] == 4
        assert first["urls_pending"] > 0
        ran = crawler(*words, "20", directory=tmp_path)
    last = said(ran)
    assert (last["exit"], last["state"], last["error"], last["job"]) == (0, "ended", None, str(job))
    assert (last["pages_fetched"], last["urls_pending"]) == (9, 0)
    assert last["elapsed_seconds"] > 0
    assert last["outputs"]["pages"]["bytes"] == (job / "pages.jsonl").stat().st_size
    assert ran.err.count("seen") == 2 * 5, "what user code and its programs print does not get between"
    stats = json.loads(crawler("stats", job, "--json").out)
    assert set(last) == {"job", "exit", "error", *stats}
    assert last["urls_by_outcome"] == stats["urls_by_outcome"]


def test_a_run_that_fetches_no_seed_says_why(tmp_path: Path) -> None:
    with Site({"/": linked([])}) as site:
        ran = crawler(site.url("/"), "--job", tmp_path / "job", "--json")
        found = said(ran)
        assert (found["exit"], found["state"]) == (1, "ended")
        assert "private-address" in found["error"]
        assert site.asked == []


def test_a_limit_before_the_first_seed_is_stored(tmp_path: Path) -> None:
    words = ("http://127.0.0.1:9/", "--job", tmp_path / "job", *FAST, "--fail-on-limit", "--max-time", "0.001")
    found, stats = said(crawler(*words)), json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert (found["exit"], found["state"], found["stopped_by"]) == (3, "stopped", "max-time")
    assert (stats["state"], stats["stopped_by"]) == ("stopped", "max-time")


@pytest.mark.parametrize(
    "words",
    [
        ("http://h.test/", "--delya", "3"),
        ("http://h.test/", "--max-pages", "x"),
        ("no-such-file.txt",),
        ("http://h.test/", "--output", "-"),
        ("stats", "no-such-job"),
        ("explain", "no-such-job", "http://h.test/"),
    ],
)
def test_an_error_is_an_object_and_a_line(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = crawler(*words, "--json", directory=tmp_path)
    found = said(ran)
    assert ran.code == 2
    assert ran.err == f"crawler: error: {found['error']}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_value_of_json_is_refused_in_json() -> None:
    assert said(crawler("http://h.test/", "--json=1"))["exit"] == 2


def test_an_interruption_before_the_run_is_an_object(tmp_path: Path) -> None:
    os.mkfifo(seeds := tmp_path / "seeds")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with running(seeds, "--job", tmp_path / "job", "--json") as process:
            writer = os.open(seeds, os.O_WRONLY)  # waits until the crawl has opened it
            state = Path(f"/proc/{process.pid}/stat")
            # A signal between opening and reading would interrupt neither.
            wait_until(lambda state=state: state.read_text().rpartition(")")[2].split()[0] == "S", "it reads")
            process.send_signal(number)
            out, _ = process.communicate(timeout=PATIENCE)
            os.close(writer)
        assert (process.returncode, json.loads(out)) == (130, {"error": "interrupted", "exit": 130})


def test_a_second_interruption_is_an_object(tmp_path: Path) -> None:
    asked = threading.Event()

    async def never(_: web.Request) -> web.Response:
        asked.set()
        await asyncio.sleep(3600)
        raise AssertionError

    with Site({"/": never}) as site, running(site.url("/"), "--job", tmp_path / "job", *FAST) as process:
        assert asked.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: read_live(tmp_path / "job").stats["state"] == "stopping", "it ends")  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, json.loads(out)) == (130, {"error": "interrupted", "exit": 130})


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_a_result_that_cannot_be_written_is_an_error(to: str, tmp_path: Path) -> None:
    with Site({"/": linked([])}) as site:
        words = [site.url("/"), "--job", str(tmp_path / "job"), *FAST, "--quiet"]
        shell = ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-m", "crawler", *words]
        ran = subprocess.run(shell, cwd=ROOT, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        assert site.asked
    assert (ran.returncode, ran.stderr.count(b"\n")) == (1, 1)
