"""The demo's pages: a child process renders them in the background, and they are kept on disk.

Rendering all pages takes a few seconds; the largest takes less than one. Serving starts at once: a requested page that
is not ready goes to the front of the line, so a request waits only for the page being rendered and for those requested
before it. A second start finds all pages on disk and starts no child.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from crawler.tools.demo.modules import MODULES

_CHILD = Path(__file__).with_name("pydoc_child.py")
# Raised when the child writes pages differently, so that pages of an older version are not served.
_EDITION = 1


class RenderError(Exception):
    """The child process ended before all pages were ready. The text is one line for the user."""


class Pages:
    """The pages of ``modules`` below the folder ``cache``, with one sub-folder for each Python version.

    ``on_page(there, of)`` is called for every page that appears, and once at the start. `start` raises OSError if the
    folder cannot be created.
    """

    def __init__(
        self,
        cache: Path,
        on_page: Callable[[int, int], None] | None = None,
        modules: tuple[str, ...] = MODULES,
    ) -> None:
        self._folder = cache / f"pydoc-{platform.python_version()}-{_EDITION}"
        self._on_page = on_page
        self._modules = frozenset(modules)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._wanted: deque[str] = deque()
        self._rendering: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._stopping = False

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    async def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        present = {path.name.removesuffix(".html") for path in self._folder.glob("*.html")}
        loop = asyncio.get_running_loop()
        self._waiting = {name: loop.create_future() for name in sorted(self._modules - present)}
        self._report()
        if self._waiting:
            self._rendering = loop.create_task(self._render())

    async def stop(self) -> None:
        """End the child. A caller that still waits for a page gets a RenderError."""
        # Do not cancel: the child must be waited for, even if it was about to end by itself.
        self._stopping = True
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
        if self._rendering is not None:
            await self._rendering

    async def get(self, name: str) -> bytes | None:
        """Return the page of one of the modules, as soon as it is rendered; None if this Python has no such module.

        Raises RenderError if the child failed before it rendered this page.
        """
        if name not in self._modules:
            raise KeyError(name)
        page = self._waiting.get(name)
        if page is not None:
            if not page.done():
                self._wanted.append(name)
            # Shielded, because all callers that wait for this page share the future.
            await asyncio.shield(page)
        return (self._folder / f"{name}.html").read_bytes() or None

    async def complete(self) -> None:
        """Return when every page exists. Raises RenderError if the child failed."""
        await asyncio.gather(*(asyncio.shield(page) for page in list(self._waiting.values())))

    def _report(self) -> None:
        if self._on_page is not None:
            self._on_page(len(self._modules) - len(self._waiting), len(self._modules))

    def _next(self) -> str:
        while self._wanted:
            name = self._wanted.popleft()
            if name in self._waiting:
                return name
        return next(iter(self._waiting))

    async def _render(self) -> None:
        reason = "rendering failed"
        try:
            with tempfile.TemporaryFile() as complaints:
                reason = await self._feed_child(complaints)
        except OSError as error:
            reason = f"the renderer cannot be started: {error}"
        finally:
            for page in self._waiting.values():
                page.set_exception(RenderError(reason))
                page.exception()  # perhaps no caller waits for it

    async def _feed_child(self, complaints: IO[bytes]) -> str:
        """Have all waiting pages rendered. Returns the reason if the child ended before that."""
        child = self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-W", "ignore", str(_CHILD), str(self._folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            # The page of `os` shows the environment, which must not be the user's.
            env={key: value for key, value in os.environ.items() if key in ("SYSTEMROOT", "TMPDIR")},
            # Ctrl-C on the terminal is for the crawl; the child ends when its input does.
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        name = ""
        while self._waiting and not self._stopping:
            name = self._next()
            child.stdin.write(f"{name}\n".encode())
            answer = await child.stdout.readline()
            if answer.strip() != name.encode():
                break
            self._waiting.pop(name).set_result(None)
            self._report()
        child.stdin.close()
        status = await child.wait()
        if self._stopping:
            return "rendering was stopped"
        complaints.seek(0)
        last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"the renderer ended with status {status} at {name}: {' '.join(last)}"
