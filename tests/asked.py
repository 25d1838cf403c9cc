"""The dashboard of a crawl that runs in another process, asked over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import socket
import urllib.parse

from tests.program import PATIENCE


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


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
