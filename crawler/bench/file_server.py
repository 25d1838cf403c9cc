"""Serves directories of files over HTTP on this machine, each on a port of its own, until its standard input ends.

    python -m crawler.bench.file_server DIR...

The files are read once, at the start, so that serving them costs little. The URL of each directory is printed, one per
line, once all of them can be reached.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

_HOST = "127.0.0.1"
_BACKLOG = 1024
_INDEX = "index.html"


async def serve(roots: Sequence[Path]) -> None:
    """Serve the directories until standard input ends."""
    runners = [_runner(_files(root)) for root in roots]
    try:
        urls = []
        for runner in runners:
            await runner.setup()
            listening = socket.create_server((_HOST, 0), backlog=_BACKLOG)
            await web.SockSite(runner, listening).start()
            urls.append(f"http://{_HOST}:{listening.getsockname()[1]}/")
        sys.stdout.write("".join(f"{url}\n" for url in urls))
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
    finally:
        for runner in runners:
            await runner.cleanup()


def _files(root: Path) -> dict[str, bytes]:
    """Return the bytes of the files by the path of their URL. ``index.html`` also serves its directory."""
    return {
        "/" + path.relative_to(root).as_posix().removesuffix(_INDEX): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def _runner(files: dict[str, bytes]) -> web.AppRunner:
    async def answer(request: web.Request) -> web.Response:
        body = files.get(request.path)
        if body is None:
            return web.Response(status=404)
        return web.Response(body=body, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    return web.AppRunner(app, access_log=None, shutdown_timeout=0.5)


if __name__ == "__main__":
    asyncio.run(serve([Path(word) for word in sys.argv[1:]]))
