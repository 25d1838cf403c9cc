"""``crawler dashboard DIR`` and ``crawler top DIR``: a job that runs, one that does not, one that begins to."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Kind
from crawler.service.progress.top_view import screen
from tests.asked import enters, opened
from tests.job.metrics.samples import statistics
from tests.jobs import OPTIONS, Stopped, stopped_job
from tests.program import ROOT, as_anybody, crawler, running, wait_until

HOST = {
    "host": "h.test:80",
    "state": "waiting",
    "pending": 12,
    "failed": 3,
    "next_time": 1_700_000_010.0,
    "wait_seconds": 10.0,
    "latency_seconds": 0.25,
    "reason": "back-off after 429 or 503",
    "errors": {"timeout": 3},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with stopped_job(tmp_path_factory.mktemp("job"), 20) as stopped:
        yield stopped


def ask(url: str, path: str, expected: int = 200, data: bytes | None = None) -> Any:
    try:
        with opened(urllib.request.Request(url + path, data, {"Content-Type": "application/json"})) as answer:
            status, content = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, content = error.code, error.read()
    assert status == expected, content
    return json.loads(content)


def test_it_follows_a_crawl_that_begins_and_one_without_a_page_of_its_own(made: Stopped, tmp_path: Path) -> None:
    job = made.copy(tmp_path / "job")
    with running("dashboard", job) as process:
        url = enters(process.stdout)
        assert ask(url, "api/stats")["state"] == "stopped"
        config = made.seeds.with_name("chain.toml")
        options = [option for option in OPTIONS if option != "0"]
        options.insert(options.index("--delay") + 1, "0.2")
        with running(made.seeds, "--job", job, "--config", config, *options):
            wait_until(lambda: ask(url, "api/stats")["state"] == "running", "the crawl seen")
            wait_until(lambda: "resumed" in [event["text"] for event in ask(url, "api/log")["events"]], "it told")
            assert ask(url, "api/stats")["elapsed_seconds"] is not None
        wait_until(lambda: ask(url, "api/stats")["state"] == "stopped", "its end seen")


def test_a_job_that_may_not_be_written_is_looked_at_without_controls(made: Stopped, tmp_path: Path) -> None:
    job = made.copy(tmp_path / "job")
    (job / "dashboard-token").unlink(missing_ok=True)
    job.chmod(0o555)
    with running("dashboard", job, preexec_fn=as_anybody) as process:
        url = enters(process.stdout)
        assert ask(url, "api/stats")["state"] == "stopped"


def test_where_there_is_no_terminal_top_prints_once(made: Stopped) -> None:
    ran = crawler("top", made.job)
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    assert "URLs pending: the limit of 20 pages was reached" in ran.out
    assert made.site.hosts[0] in ran.out
    assert "started" in ran.out


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_on_a_terminal_top_stays_until_it_is_ended(key: bytes, made: Stopped) -> None:
    keyboard, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    before = termios.tcgetattr(terminal)
    words = [sys.executable, "-m", "crawler", "top", str(made.job)]
    process = subprocess.Popen(
        words, stdin=terminal, stdout=terminal, stderr=terminal, cwd=ROOT, start_new_session=True
    )
    shown = b""

    def drawn() -> bool:
        nonlocal shown
        if select.select([keyboard], [], [], 0)[0]:
            shown += os.read(keyboard, 65_536)
        return made.site.hosts[0].encode() in shown

    try:
        wait_until(drawn, "a screen")
        assert process.poll() is None
        if key == b"q":
            os.write(keyboard, key)
        else:
            process.send_signal(signal.SIGINT)
        wait_until(lambda: drawn() and process.poll() is not None, "its end")
        assert process.returncode == (0 if key == b"q" else 130)
        assert b"Traceback" not in shown
        assert termios.tcgetattr(terminal) == before
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(keyboard)
        os.close(terminal)


def printed(history: CrawlHistory, host: dict[str, Any] | None = None, **changes: Any) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(screen(statistics(**changes), history, (2_000, [HOST | (host or {})]), 40, 140))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_hosts_that_are_done_are_only_counted_while_others_work() -> None:
    done = HOST | {"host": "done.test:80", "state": "idle"}
    for rows, shown in (([HOST, done], ["h.test:80"]), ([done | {"failed": 0}, done], ["done.test:80"] * 2)):
        console = Console(file=io.StringIO(), width=140)
        console.print(screen(statistics(), CrawlHistory(), (2, rows), 40, 140))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert re.findall(r"(?:h|done)\.test:80", text) == shown
        assert "idle 1" in text


def test_what_a_terminal_would_obey_is_shown() -> None:
    history = CrawlHistory()
    history.events.add(1_700_000_000.0, Kind.ERROR, "a\x1b[2Jb\u202ec\r\n", "h\x07.test")
    text = printed(history, {"host": "\x1b]0;owned\x07"})
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a\\x1b[2Jb\\u202ec" in text
