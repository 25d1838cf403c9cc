"""The site of ``kinds_spider``, and the runs of the spider.

They are by the Scrapy that is installed beside the tests. ``SCRAPY_PYTHON=/path/to/python`` names another interpreter,
which has another version of Scrapy and the dependencies of this project.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.documents import ROOT
from tests.program import PATIENCE

CLOSED = "http://127.0.0.1:1/"  # as in the spider: nothing listens there
PAGES = 60
PYTHON = os.environ.get("SCRAPY_PYTHON", sys.executable)
SPIDER = Path(__file__).with_name("kinds_spider.py")
SETTINGS = {
    "SCHEDULER": "crawler.scrapy.Scheduler",
    "DUPEFILTER_CLASS": "crawler.scrapy.DupeFilter",
    "TELNETCONSOLE_ENABLED": "0",
    "ROBOTSTXT_OBEY": "0",
    "DOWNLOAD_DELAY": "0",
    "LOG_LEVEL": "INFO",
}


@dataclass
class Web:
    """``asked`` has (method, path, body) of each request. At request number ``last`` the process ``victim`` is
    killed."""

    url: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    last: int | None = None
    victim: subprocess.Popen[str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, method: str, path: str, body: str) -> int:
        """Note a request, and return how often it came. Does not return to a process that it killed."""
        with self.lock:
            self.asked.append((method, path, body))
            if self.last is not None and len(self.asked) >= self.last and self.victim is not None:
                self.last = None
                self.victim.send_signal(signal.SIGKILL)
                self.victim.wait()
            return self.asked.count((method, path, body))

    def counts(self) -> Counter[str]:
        """How often each path was asked for."""
        with self.lock:
            return Counter(path for _, path, _ in self.asked)


@contextlib.contextmanager
def site() -> Iterator[Web]:
    """The site, on a free port of loopback."""
    web = Web()

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            times = web.note("GET", self.path, "")
            if self.path == "/old":
                self.reply(302, "", Location="/new")
            elif self.path == "/missing" or (self.path == "/flaky" and times == 1):
                self.reply(404 if self.path == "/missing" else 503, "no")
            elif self.path == "/told":
                self.reply(200, json.dumps([self.headers["X-Own"], self.headers["Cookie"]]))
            elif self.path.startswith("/page/"):
                number = int(self.path.rpartition("/")[2])
                near = [n for n in range(5 * number, 5 * number + 6) if n < PAGES]
                self.reply(200, "".join(f'<a href="/page/{n}">{number}</a>' for n in near))
            else:
                self.reply(200, self.path)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            web.note("POST", self.path, body)
            self.reply(200, body)

        def reply(self, status: int, text: str, **headers: str) -> None:
            with contextlib.suppress(OSError):  # the spider was killed
                self.send_response(status)
                for name, value in {"Content-Type": "text/html", "Content-Length": str(len(text)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), OSError):  # a spider that was killed reads no answers
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    web.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class SpiderRun:
    """A spider that has ended."""

    code: int
    log: str

    @property
    def stats(self) -> dict[str, int]:
        """The counts that Scrapy dumps at the end."""
        lines = self.log.partition("Dumping Scrapy stats:")[2].splitlines()
        pairs = (line.strip(" {},").split(": ") for line in lines if line.count(": ") == 1)
        return {name.strip("'"): int(value) for name, value in pairs if value.isdigit()}


def run_spider(
    web: Web, folder: Path, *, kill_at: int | None = None, spider: Path = SPIDER, **settings: str | None
) -> SpiderRun:
    """Run the spider until it ends, or is killed when it sends so many more requests."""
    chosen = {**SETTINGS, "JOBDIR": str(folder / "job"), **settings}
    options = [word for name, value in chosen.items() if value is not None for word in ("-s", f"{name}={value}")]
    arguments = ["-a", f"web={web.url}", "-a", f"saw={folder / 'saw.jsonl'}"]
    # What Scrapy says of its own parts is no fault of ours.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    web.last = None if kill_at is None else len(web.asked) + kill_at
    with subprocess.Popen(
        [PYTHON, "-m", "scrapy", "runspider", str(spider), *arguments, *options],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        web.victim = process
        said, _ = process.communicate(timeout=4 * PATIENCE)
        return SpiderRun(process.returncode, said)


def saw(folder: Path) -> list[dict[str, Any]]:
    """What the callbacks saw."""
    return [json.loads(line) for line in (folder / "saw.jsonl").read_text().splitlines()]
