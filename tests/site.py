"""Small real sites on loopback, served from a thread, and a protocol of what they were asked."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

ROOT = Path(__file__).resolve().parent.parent
_DROP_CAPABILITY = 24  # prctl(2): PR_CAPBSET_DROP
_DAC_OVERRIDE = 1  # capabilities(7): what lets root write where nobody may
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """One request: where, and from when to when (monotonic seconds)."""

    host: str
    path: str
    start: float
    end: float


@dataclass
class Site:
    """``pages`` maps a path to a page's HTML or to a handler. Every port is a host with the same pages."""

    pages: Mapping[str, str | Handler]
    ports: int = 1
    latency: float = 0.0
    robots: str | Handler | None = None
    address: tuple[str, int] = ("127.0.0.1", 0)  # port 0: one that is free
    asked: list[Asked] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10), "the site did not come up"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_route("GET", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        for _ in range(self.ports):
            listener = web.TCPSite(runner, *self.address)
            await listener.start()
            assert listener._server is not None
            port = listener._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
            self.hosts.append(f"{self.address[0]}:{port}")
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        start = time.monotonic()
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            page = self.robots if request.path == "/robots.txt" else self.pages.get(request.path_qs)
            if page is None:
                return web.Response(status=404, text="no such page", content_type="text/html")
            if isinstance(page, str):
                kind = "text/plain" if request.path == "/robots.txt" else "text/html"
                return web.Response(text=page.replace("{host}", request.host), content_type=kind)
            return await page(request)
        finally:
            self.asked.append(Asked(request.host, request.path_qs, start, time.monotonic()))

    def url(self, path: str, host: int = 0) -> str:
        return f"http://{self.hosts[host]}{path}"

    def count(self, path: str) -> int:
        """How often a path was asked for, on all hosts."""
        return sum(asked.path == path for asked in self.asked)

    def pages_asked(self) -> list[str]:
        """All requests but those for robots.txt, as URLs."""
        return [f"http://{a.host}{a.path}" for a in self.asked if a.path != "/robots.txt"]


def linked(paths: Iterable[str]) -> str:
    """A page with these links."""
    return "<!doctype html><title>page</title>" + "".join(f'<a href="{path}">x</a>' for path in paths)


def tree(pages: int, fan: int = 7) -> dict[str, str]:
    """A site of ``pages`` pages below ``/``, each linking to ``fan`` further ones, to its parent and to the start."""
    return {
        _name(n): linked(
            [_name(child) for child in range(fan * n + 1, fan * n + fan + 1) if child < pages] + ["/", _name(n // fan)]
        )
        for n in range(pages)
    }


def _name(number: int) -> str:
    return "/" if number == 0 else f"/page/{number}"


@dataclass
class Ran:
    """A finished run of the program."""

    code: int
    out: str
    err: str


def crawler(
    *words: str | Path, stdin: str | bytes = "", timeout: float = 60, env: Mapping[str, str] | None = None
) -> Ran:
    """Run ``python -m crawler`` to its end."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-m", "crawler", *map(str, words)],
        input=data,
        capture_output=True,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


@contextmanager
def running(*words: str | Path, **options: Any) -> Any:
    """``python -m crawler``, running; killed at the end if it still is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "crawler", *map(str, words)],
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        **options,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def as_anybody() -> None:
    """Also root is held to the permissions of files, from the next program on."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_DROP_CAPABILITY, _DAC_OVERRIDE, 0, 0, 0)


def wait_until(true: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Poll until something outside this process has happened."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)
