"""The dashboard of a crawl that runs in another process, asked over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import socket
import urllib.parse

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


def asked(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body, of an endless one the beginning; 0 where nobody listens."""
    parts = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)) as connection:
        try:
            connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        except ConnectionRefusedError:
            return 0, b""
        response = connection.getresponse()
        if response.getheader("Content-Type") == "text/event-stream":
            return response.status, b"".join(response.readline() for _ in range(6))
        return response.status, response.read()
