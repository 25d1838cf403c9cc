"""Servers that speak the protocol of S3: moto, and a small one that fails on demand; and all that a store is asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

from crawler.job.bucket.objects import Objects

SECRET = "not-to-be-shown"


def every_call(objects: Objects) -> list[Callable[[], object]]:
    """Each call of a store, and a delete of several."""
    reads = [lambda: objects.get("a/b"), lambda: list(objects.list("a/"))]
    deletes = [lambda keys=keys: objects.delete(keys) for keys in (["a/b"], ["a/b", "c"])]
    return [lambda: objects.put("a/b", b""), *reads, *deletes]


@contextmanager
def credentials(port: int) -> Iterator[pytest.MonkeyPatch]:
    """The environment in which clients ask the server at a port of this machine, and no other."""
    names = {
        "ACCESS_KEY_ID": "key",
        "SECRET_ACCESS_KEY": SECRET,
        "EC2_METADATA_DISABLED": "true",
        "REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**names, "ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
            patch.setenv(f"AWS_{name}", value)
        yield patch


@contextmanager
def serving(server: Any) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        pass


@contextmanager
def moto(refused: dict[str, tuple[str, str]] | None = None) -> Iterator[int]:
    """The port of a moto. It answers one request after the other, because its condition and its put are two steps.
    ``refused``: the status and code with which it answers requests of a method, while they are there."""
    backend = DomainDispatcherApplication(create_backend_app)

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        status, code = (refused or {}).get(environ["REQUEST_METHOD"], ("", ""))
        return (
            Response(f"<Error><Code>{code}</Code></Error>", status)(environ, start) if code else backend(environ, start)
        )

    server = make_server("127.0.0.1", 0, app, threaded=False, request_handler=_Quiet)
    with serving(server):
        yield server.port


class FailingS3(ThreadingHTTPServer):
    """Ignores the condition of a put, loses answers or gives wrong ones, as it is asked to. It deletes several objects
    only if none is missing, as some stores do."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _FailingHandler)
        self.objects: dict[str, bytes] = {}
        self.answer: tuple[int, str] | None = None  # status and code of each answer
        self.honours = False  # the condition
        self.loses = 0

    def handle_error(self, *_: object) -> None:
        """A client that has gone is no fault."""


class _FailingHandler(BaseHTTPRequestHandler):
    server: FailingS3

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        there = self.path in self.server.objects
        if there and self.server.honours:
            return self._send(412, "PreconditionFailed")
        if self.server.answer is None:
            self.server.objects[self.path] = data
        if self.server.loses:
            self.server.loses -= 1
            return None
        return self._send(200)

    def do_GET(self) -> None:
        data = self.server.objects.get(self.path.partition("?")[0])
        return self._send(404, "NoSuchKey") if data is None else self._send(200, data=data)

    def do_POST(self) -> None:
        keys = re.findall("<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])).decode())
        if any(f"{self.path.partition('?')[0]}/{key}" not in self.server.objects for key in keys):
            return self._send(404, "NoSuchKey")
        for key in keys:
            del self.server.objects[f"{self.path.partition('?')[0]}/{key}"]
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return self._send(200, data=f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _send(self, status: int, code: str = "", data: bytes = b"") -> None:
        if self.server.answer is not None:
            status, code = self.server.answer
        if status != 200:
            data = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode() if code else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"tag"')
        self.send_header("Last-Modified", "Sun, 29 Nov 2026 12:05:50 GMT")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass
