"""SIGTERM, as a supervisor sends it, while everything is busy and every server hangs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from aiohttp import web

from tests.program import PATIENCE, crawler, running, wait_until
from tests.site import Site, linked


async def hangs(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response(text="never")


async def drips(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/html"})
    await answer.prepare(request)
    while True:
        await answer.write(b"<p>x</p>")
        await asyncio.sleep(0.1)


def test_sigterm_ends_a_busy_crawl_in_time_and_nothing_is_lost(tmp_path: Path) -> None:
    many = [f"/many/{number}" for number in range(3_000)]
    slow = [f"/{kind}/{number}" for number in range(20) for kind in ("hang", "drip")]
    pages: dict[str, object] = {"/": linked([*slow, *many])}
    pages.update((path, hangs if path.startswith("/hang") else drips) for path in slow)
    pages.update((path, linked(many[:200])) for path in many)
    with Site(pages) as site:  # type: ignore[arg-type]
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        job = tmp_path / "job"
        words = (tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0", "--per-host", "64", "--quiet")
        with running(*words) as process:
            wait_until(lambda: (job / "pages.jsonl").exists() and len(site.asked) > 100, "it is busy")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 130, "what never ends is not waited for"
        assert crawler("verify", job).code == 0
