"""A web to crawl: nginx over directories of files, one loopback address a directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_CONFIGURATION = """
{user}
worker_processes 1;
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  types {{ text/html html htm; text/plain txt; text/css css; application/javascript js; image/png png;
    image/svg+xml svg; }}
  default_type application/octet-stream;
  log_not_found off;
  sendfile on;
  tcp_nopush on;
  client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi;
  scgi_temp_path {home}/scgi;
  log_format short '$status\t$sent_http_content_type\thttp://$http_host$request_uri\t$msec\t$request_time';
  access_log {home}/access.log short;
{servers}
}}
"""
_SERVER = "  server {{ listen {address}:{port} backlog=4096; root {root}; index index.html index.htm; }}"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as nginx saw it."""

    status: int
    html: bool
    url: str
    end: float  # seconds since 1970; the answer was sent
    seconds: float  # from the request's first byte to there

    @property
    def start(self) -> float:
        return self.end - self.seconds


@dataclass
class Web:
    """What is served: its seeds, and the protocol of requests."""

    seeds: list[str]
    log: Path

    def answered(self, since: int) -> int:
        """How many requests have their lines behind byte ``since`` of the protocol, robots.txt left out."""
        with self.log.open("rb") as stream:
            stream.seek(since)
            text = stream.read()
        return text.count(b"\n") - text.count(b"/robots.txt\t")

    def asked(self, since: int) -> tuple[list[Asked], int]:
        """The requests whose lines stand behind byte ``since`` of the protocol, robots.txt left out; and its end."""
        with self.log.open("rb") as stream:
            stream.seek(since)
            text = stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        found = []
        for line in whole.decode("utf-8", "replace").splitlines():
            status, kind, url, end, seconds = line.split("\t")
            if not url.endswith("/robots.txt"):
                found.append(Asked(int(status), kind.startswith("text/html"), url, float(end), float(seconds)))
        return found, since + len(whole)


@contextlib.contextmanager
def served(roots: Sequence[tuple[Path, str]], home: Path) -> Iterator[Web]:
    """Serve directories, each with the path of its first page; nginx keeps its files in ``home``.

    Raises FileNotFoundError when there is no nginx.
    """
    program = shutil.which("nginx")
    if program is None:
        raise FileNotFoundError("nginx is missing: apt-get install nginx-light")
    home.mkdir(parents=True)
    port = _free_port()
    hosts = [(f"127.0.2.{number}", root, path) for number, (root, path) in enumerate(roots, 1)]
    servers = "\n".join(_SERVER.format(address=address, port=port, root=root) for address, root, _ in hosts)
    # Workers of a root's nginx would be nobody, who may not look into a temporary directory.
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = home / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(user=user, home=home, servers=servers))
    process = subprocess.Popen([program, "-c", str(configuration), "-p", str(home), "-e", str(home / "error.log")])
    try:
        _await(process, hosts[0][0], port)
        yield Web([f"http://{address}:{port}{path}" for address, _, path in hosts], home / "access.log")
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(process: subprocess.Popen[bytes], address: str, port: int) -> None:
    """Return when nginx answers. Raises ChildProcessError when it ends instead."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.02)
    raise ChildProcessError(f"nginx ended with {process.returncode}")


def given_root(word: str) -> tuple[Path, str]:
    """A directory to serve and the path of its first page, as ``DIR[=PATH]`` names them."""
    directory, _, path = word.partition("=")
    return Path(directory).expanduser().resolve(), path or "/"
