"""Hosts that gave no page are counted by their cause, whatever happens to the run, and so are the errors of hosts."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.asked import asked, free_port
from tests.program import crawler, running, wait_until
from tests.service.test_notices import receiver

BROKEN, SLOW, DEAD, BUSY, GONE, CLOSED = (f"127.77.0.{number}" for number in range(101, 107))
GOOD = [f"127.77.0.{number}" for number in range(1, 11)]
BY_CAUSE = {"robots_unreachable": 1, "timeout": 1, "refused": 1, "429": 1, "4xx": 1, "robots": 1}
STATUSES = {BROKEN: 500, BUSY: 429, GONE: 404}
CONFIG = """
[fetch]
allow_networks = ["127.0.0.0/8"]
headers_timeout = 0.4
[politeness]
delay = 0.02
backoff_first = 0.05
[retry]
tries = 2
first_wait = 0.1
max_wait = 0.2
[notify]
url = "HOOK"
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address, port = self.headers["Host"].split(":")
        status, body = STATUSES.get(address, 200), "".join(f'<a href="/{n}">x</a>' for n in range(9))
        if address == SLOW:
            time.sleep(1.0)
        if address == GOOD[0] and self.path == "/":  # the others are found
            body += "".join(f'<a href="http://{each}:{port}/">x</a>' for each in [*GOOD, *STATUSES, SLOW, DEAD, CLOSED])
        if self.path == "/robots.txt" and address != BROKEN:
            status, body = (200, "User-agent: *\nDisallow: /\n") if address == CLOSED else (404, "")
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *words: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *words: Any) -> None: ...  # the crawler hung up


@contextmanager
def served(*addresses: str, port: int = 0) -> Iterator[int]:
    servers = list[_Server]()
    for address in addresses:
        servers.append(_Server((address, port), _Handler))
        port = servers[0].server_port
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield port
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def counted(job: Path) -> dict[str, int]:
    found = json.loads(crawler("stats", job, "--json").out)["hosts_without_page"]
    return {cause: number for cause, number in found.items() if number}


@pytest.mark.parametrize("how", [("--scope", "any"), ("--scope", "any", "--partitions", "3")])
def test_they_are_counted_after_a_kill_in_partitions_and_leave_the_count(tmp_path: Path, how: tuple[str, ...]) -> None:
    job, config = tmp_path / "job", tmp_path / "c.toml"
    with served(*GOOD, BROKEN, SLOW, BUSY, GONE, CLOSED) as port, receiver() as there:
        config.write_text(CONFIG.replace("HOOK", there.url))
        words = (f"http://{GOOD[0]}:{port}/", "--job", job, "--config", config, *how)
        if "--partitions" not in how:
            with running(*words) as process:
                wait_until(
                    lambda: (job / "pages.jsonl").exists() and b"/3" in (job / "pages.jsonl").read_bytes(), "some"
                )
                process.send_signal(signal.SIGKILL)
                process.wait()
        ran = crawler(*words)
        assert ran.code == 0, ran.err
        assert counted(job) == BY_CAUSE
        assert "6 of 16 hosts" in ran.err
        end = there.all()[-1]
        assert (end["event"], sum(end["hosts_without_page"].values())) == ("end", 6)
        assert "6 of 16 hosts" in end["text"]
        if "--partitions" in how:
            return
        on_the_page(job)
        with served(DEAD, port=port):
            assert crawler("retry", job, "--host", f"{DEAD}:{port}").code == 0
            assert crawler(*words).code == 0
        assert counted(job) == {cause: number for cause, number in BY_CAUSE.items() if cause != "refused"}


def on_the_page(job: Path) -> None:
    """What the dashboard says of the same."""
    port = free_port()
    with running("dashboard", job, "--listen", f"127.0.0.1:{port}"):
        headers = {"Authorization": ""}

        def get(what: str) -> Any:
            headers["Authorization"] = f"Bearer {(job / 'dashboard-token').read_text().strip()}"
            return json.loads(asked(f"http://127.0.0.1:{port}/api/{what}", **headers)[1])

        wait_until(lambda: asked(f"http://127.0.0.1:{port}/healthz")[0] != 0, "the page")
        assert {cause: n for cause, n in get("stats")["hosts_without_page"].items() if n} == BY_CAUSE
        rows = get("hosts?sort=no_page&order=desc&limit=6")["hosts"]
        assert {row["host"].partition(":")[0]: row["no_page"] for row in rows} == {
            BROKEN: "robots_unreachable",
            SLOW: "timeout",
            DEAD: "refused",
            BUSY: "429",
            GONE: "4xx",
            CLOSED: "robots",
        }
        errors = {
            row["host"].partition(":")[0]: row["errors"] for row in get("hosts?sort=errors&order=desc&limit=4")["hosts"]
        }
        assert errors.keys() == {BROKEN, SLOW, DEAD, BUSY}
        assert (errors[BROKEN].keys(), errors[BUSY].keys()) == ({"server_error"}, {"throttled"})
