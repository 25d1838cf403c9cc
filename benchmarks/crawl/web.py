"""A web to crawl: nginx over directories of files, one loopback address a directory, and a made set of such files."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MADE_HOSTS = 5
MADE_PAGES = 2_000  # of all hosts together

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


def make_files(home: Path, hosts: int = MADE_HOSTS, pages: int = MADE_PAGES) -> list[tuple[Path, str]]:
    """Write ``hosts`` manuals of ``pages`` HTML pages in all; the same files each time.

    A page is like one of a generated manual: some 37 kB, half of it markup, with a table of contents that every
    page of its chapter has, links into the text of other pages, and two to sites that are not there.
    """
    return [(_make_manual(home / f"manual-{number}", number, pages // hosts), "/") for number in range(hosts)]


def _make_manual(root: Path, number: int, pages: int) -> Path:
    pick = random.Random(number)
    words = ["".join(pick.choices("aaeeiioubcdfghklmnprst", k=pick.randrange(3, 10))) for _ in range(800)]
    names = ["index.html", *(f"chapter-{page // 25}/page-{page:04d}.html" for page in range(1, pages))]
    for page, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_make_page(pick, words, names, page))
    return root


def _make_page(pick: random.Random, words: list[str], names: list[str], page: int) -> str:
    up = "../" * names[page].count("/")

    def link(target: int, fragment: str = "") -> str:
        # The first page has one URL, as on a site made with care.
        path = up + names[target % len(names)].removesuffix("index.html")
        return f'<a class="reference internal" href="{path}{fragment}">{text(3)}</a>'

    def text(count: int) -> str:
        return " ".join(pick.choices(words, k=count))

    chapter = page // 25 * 25
    contents = "\n".join(f"<li>{link(target)}</li>" for target in range(chapter, chapter + 25))
    sections = "\n".join(
        f'<section id="s{number}"><h2>{text(4)}<a class="headerlink" href="#s{number}">#</a></h2>\n'
        + "\n".join(
            f"<p>{text(40)} {link(pick.randrange(len(names)), f'#s{pick.randrange(20)}')} {text(30)}</p>"
            for _ in range(3)
        )
        + "</section>"
        for number in range(20)
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{text(4)}</title></head><body>\n'
        f'<nav>{link(page + 1)} {link(page + 25)} <a href="https://elsewhere.example/{page}">{text(2)}</a>\n'
        f'<a href="https://example.org/">{text(1)}</a><ul>{contents}</ul></nav>\n{sections}\n</body></html>\n'
    )
