"""The dashboard of a crawl that runs in another process, asked over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import socket
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any

from tests.program import PATIENCE

# To a server that takes any port the system gives none below 32768 (ip(7)), so these stay free until they are used.
# Each process of a run begins elsewhere.
_ports = itertools.islice(itertools.cycle(range(20_000, 32_000)), os.getpid() * 101 % 12_000, None)


def free_port() -> int:
    """A port of loopback where nobody listens, and no other test will."""
    for port in _ports:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("the ports never end")


_tokens: dict[str, str | Path] = {}  # of the dashboards that are up, by host and port


def knows(url: str, token: str | Path) -> str:
    """From now on requests to the dashboard carry the token: this one, or what the job in the directory keeps then."""
    _tokens[urllib.parse.urlsplit(url).netloc] = token
    return url


def enters(printed: IO[bytes]) -> str:
    """The address in the link that a dashboard prints. From now on requests to it carry the token."""
    while line := printed.readline().decode():
        url, found, token = line.split()[-1].partition("?token=") if line.strip() else ("", "", "")
        if found:
            return knows(url, token)
    raise AssertionError("the program ended without a link to its dashboard")


def rights(url: str) -> dict[str, str]:
    """What a request to the dashboard carries."""
    token = _tokens.get(urllib.parse.urlsplit(url).netloc, "")
    if isinstance(token, Path):
        kept = token / "dashboard-token"
        token = kept.read_text().strip() if kept.exists() else ""
    return {"Authorization": f"Bearer {token}"} if token else {}


def opened(request: str | urllib.request.Request, timeout: float = PATIENCE) -> Any:
    """As ``urllib.request.urlopen``, with the token."""
    made = urllib.request.Request(request) if isinstance(request, str) else request
    made.headers = rights(made.full_url) | made.headers
    return urllib.request.urlopen(made, timeout=timeout)


def asked(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body, of an endless one the beginning; 0 where nobody listens."""
    parts, headers = urllib.parse.urlsplit(url), rights(url) | headers
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)) as connection:
        try:
            connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        except ConnectionRefusedError:
            return 0, b""
        response = connection.getresponse()
        if response.getheader("Content-Type") == "text/event-stream":
            return response.status, b"".join(response.readline() for _ in range(6))
        return response.status, response.read()
