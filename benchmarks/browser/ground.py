"""What the benchmarks of rendered pages stand on: a network of their own, servers that log, and crawls that are
measured with all their processes.

Everything happens in a network namespace that has only loopback, with its own names and its own resolver, so that no
page, crawler or browser can reach another machine. CRAWLER is the command of the crawler (default: this Python's),
WHEN the setting `browser.when` (default: signs).
"""

from __future__ import annotations

import ctypes
import fcntl
import http.server
import itertools
import json
import os
import shlex
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.parse import urlsplit

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crawler-benchmarks"
COMMAND = shlex.split(os.environ.get("CRAWLER", f"{sys.executable} -m crawler"))
WHEN = os.environ.get("WHEN", "signs")
PORT = 8840
RESOLUTION = 0.003  # seconds by which a gap may seem shorter than it was
_INSIDE = "BENCHMARK_NETWORK"
_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_PR_SET_CHILD_SUBREAPER = 36


def isolate(names: Mapping[str, str]) -> None:
    """Start this script again in a network namespace, where ``names`` are all names there are. Asked names that are
    not among them go to 127.0.0.53, where ``Canaries`` listens."""
    if os.environ.get(_INSIDE) is None:
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        words = ["unshare", *rights, "--net", "--mount", sys.executable, *sys.argv]
        os.execvpe(words[0], words, {**os.environ, _INSIDE: "1"})
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _UP_AND_RUNNING))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    lines = "".join(f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **names}.items())
    for path, text in (("/etc/hosts", lines), ("/etc/resolv.conf", "nameserver 127.0.0.53\noptions attempts:1\n")):
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        subprocess.run(["mount", "--bind", file.name, os.path.realpath(path)], check=True)
        Path(file.name).unlink()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def header(*more: str) -> None:
    """Print the machine and what is measured."""
    print(time.strftime("date      %Y-%m-%d", time.gmtime()))
    for line in (*describe_machine(), *more):
        print(line)
    print()


@dataclass
class Asked:
    """A request as a server saw it. ``ended`` is the moment before the last bytes of its answer are sent."""

    host: str
    method: str
    path: str
    headers: Mapping[str, str]
    began: float
    ended: float = float("inf")

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"


@dataclass(frozen=True)
class Reply:
    """An answer. Parts of a body that is an iterator are sent one by one."""

    body: bytes | str | Iterator[bytes] = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def page(body: str, head: str = "", title: str = "a page") -> Reply:
    """A document in HTML."""
    return Reply(
        f"<!doctype html><html><head><meta charset=utf-8><title>{title}</title>{head}</head><body>{body}</body>"
    )


class Servers:
    """Servers at one port of these addresses, which ask ``answer`` for each answer and keep one log."""

    def __init__(self, addresses: Iterable[str], answer: Callable[[Asked], Reply], port: int = PORT) -> None:
        self.log: list[Asked] = []
        log = self.log

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            timeout = 60

            def handle_one_request(self) -> None:
                with suppress(ConnectionError, TimeoutError):
                    super().handle_one_request()
                    return
                self.close_connection = True

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                asked = Asked(self.headers["Host"], self.command, self.path, dict(self.headers), time.time())
                log.append(asked)
                self.rfile.read(length)
                reply = answer(asked)
                body = reply.body.encode() if isinstance(reply.body, str) else reply.body
                self.send_response(reply.status)
                for name, value in {"Content-Type": reply.kind, **reply.headers}.items():
                    self.send_header(name, value)
                if isinstance(body, bytes):
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    asked.ended = time.time()
                    self.wfile.write(body)
                    return
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in body:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.flush()
                asked.ended = time.time()
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

            def log_message(self, *args: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

            def handle_error(self, *args: object) -> None:  # who asked is gone, as crawlers are that were killed
                if not isinstance(sys.exc_info()[1], ConnectionError):
                    super().handle_error(*args)

            def server_bind(self) -> None:  # without the name of the address, for which the resolver would be asked
                socketserver.TCPServer.server_bind(self)

        self._servers = [Server((address, port), Handler) for address in addresses]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def by_host(self) -> dict[str, list[Asked]]:
        """The log of each host, by the time of the requests."""
        hosts: defaultdict[str, list[Asked]] = defaultdict(list)
        for asked in sorted(self.log, key=lambda asked: asked.began):
            hosts[asked.host].append(asked)
        return hosts

    def gaps(self) -> dict[str, list[float]]:
        """The seconds between the end of a request to a host and the beginning of the next."""
        return {
            host: [later.began - earlier.ended for earlier, later in itertools.pairwise(rows)]
            for host, rows in self.by_host().items()
        }


class Canaries:
    """Ports and names that nobody may ask: who does is in ``sung``. Listens also as the resolver."""

    def __init__(self, tcp: Iterable[tuple[str, int]] = (), udp: Iterable[tuple[str, int]] = ()) -> None:
        self.sung: list[str] = []
        for at in tcp:
            listener = socket.create_server(at)
            threading.Thread(target=self._accept, args=(listener, at), daemon=True).start()
        for at in (*udp, ("127.0.0.53", 53)):
            listener = socket.socket(type=socket.SOCK_DGRAM)
            listener.bind(at)
            threading.Thread(target=self._receive, args=(listener, at), daemon=True).start()

    def _accept(self, listener: socket.socket, at: tuple[str, int]) -> None:
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.settimeout(1)
                line = connection.recv(200).partition(b"\r\n")[0].decode("latin-1")
                self.sung.append(f"{at[0]}:{at[1]} {line}")

    def _receive(self, listener: socket.socket, at: tuple[str, int]) -> None:
        while True:
            data, sender = listener.recvfrom(2_000)
            if at[1] != 53:
                self.sung.append(f"udp {at[0]}:{at[1]}")
                continue
            labels, rest = [], data[12:]
            while rest and rest[0]:
                labels.append(rest[1 : 1 + rest[0]].decode("latin-1"))
                rest = rest[1 + rest[0] :]
            self.sung.append(f"name {'.'.join(labels)}")
            listener.sendto(data[:2] + b"\x81\x83" + data[4:6] + bytes(6) + data[12:], sender)  # there is none


@dataclass(frozen=True)
class Crawled:
    """What came of a run. ``cpu`` are seconds of all its processes, ``peak`` bytes of them (PSS)."""

    code: int
    seconds: float
    cpu: float
    peak: int
    output: str
    left: tuple[str, ...]  # processes that were there 5 s after the end


def measured(words: Sequence[str], *, limit: float = 3_600, memory: bool = False, **changes: str) -> Crawled:
    """Run a command to its end. All processes that it leaves become ours: their time counts, and they are ended."""
    used = _children()
    began, peak = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = start(words, output, **changes)
        while process.poll() is None:
            if memory:
                peak = max(peak, sum(pss(pid) for pid in [process.pid, *descendants(process.pid)]))
            if time.monotonic() - began > limit:
                process.kill()
            time.sleep(0.1)
        seconds = time.monotonic() - began
        left = reap(5.0)
        output.seek(0)
        return Crawled(process.returncode, seconds, _children() - used, peak, output.read(), tuple(left))


def start(words: Sequence[str], output: IO[str], **changes: str) -> subprocess.Popen[bytes]:
    """Start a command; the crawler of this checkout is found whatever the directory is."""
    where = ROOT if "CRAWLER" not in os.environ else None
    environment = {**os.environ, **changes}
    return subprocess.Popen(words, cwd=where, stdout=output, stderr=output, env=environment, start_new_session=True)


def reap(patience: float) -> list[str]:
    """Wait for the processes that became ours when their parent was gone; end those that stay and return what they
    are."""
    until = time.monotonic() + patience
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = descendants(os.getpid())
        if not left or time.monotonic() > until:
            break
        time.sleep(0.05)
    names = [command_of(pid) for pid in left]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return names


def descendants(pid: int) -> list[int]:
    """Children of a process, and theirs, without the threads and the dead."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = entry.read_text().rpartition(")")[2].split()
            if words[0] != "Z":
                children[int(words[1])].append(int(entry.parent.name))
    found = list(children[pid])
    for each in found:
        found += children[each]
    return found


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:200]
    return ""


def pss(pid: int) -> int:
    """Bytes of a process, with its share of what it has in common with others."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def command(job: Path, seeds: Iterable[str], settings: str, flags: Sequence[str] = ()) -> list[str]:
    """The crawler's command for a job with these settings."""
    listed, config = job.with_suffix(".seeds"), job.with_suffix(".toml")
    listed.write_text("".join(f"{seed}\n" for seed in seeds))
    config.write_text(settings)
    known = ["--job", str(job), "--config", str(config), "--allow-network", "127.0.0.0/8", "--quiet"]
    return [*COMMAND, str(listed), *known, *flags]


def records(job: Path) -> list[dict[str, object]]:
    """The records of pages."""
    rows: list[dict[str, object]] = []
    for path in sorted(job.rglob("pages*.jsonl")):
        rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows


def links_of(job: Path) -> set[tuple[str, str]]:
    """The links of elements `a`: from which page to which URL. The job keeps `links`."""
    lines = [line for path in job.rglob("links-*.jsonl") for line in path.read_text().splitlines()]
    return {(edge["from"], edge["to"]) for edge in map(json.loads, lines) if edge["kind"] == "a"}


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def npm_file(package: str, inside: str) -> bytes:
    """A file of an npm package, which is fetched once. Call it before ``isolate``."""
    kept = CACHE / "npm" / package.replace("/", "_")
    if not (kept / inside).exists():
        kept.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", package], cwd=kept, check=True, capture_output=True, text=True
        )
        subprocess.run(["tar", "xzf", packed.stdout.split()[-1]], cwd=kept, check=True)
    return (kept / inside).read_bytes()


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
