"""A running crawl reads its configuration again. The servers' own protocol says what holds from then on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.base.settings.parts import BrowserSettings, Settings
from crawler.service.commands import Refused
from crawler.service.reloading import Parts, Reloading
from tests.program import PATIENCE, crawler, running, wait_until
from tests.site import Site


def pages(keys: list[tuple[str, str | None]]) -> Any:
    """A site without an end, which notes the key that each request carries."""

    async def page(request: web.Request) -> web.Response:
        keys.append((request.host, request.headers.get("X-Key")))
        number = int(request.path[1:] or 0)
        links = "".join(f'<a href="/{number + step}">x</a>' for step in (1, 2))
        return web.Response(text=f"<p>{number}{links}", content_type="text/html")

    class Endless(dict[str, Any]):
        def get(self, path: str, default: object = None) -> Any:
            return page

    return Endless()


def test_a_running_crawl_takes_over_what_has_changed(tmp_path: Path) -> None:
    job, config, seeds = tmp_path / "job", tmp_path / "crawl.toml", tmp_path / "seeds.txt"
    keys: list[tuple[str, str | None]] = []
    slow = "[politeness]\ndelay = 30.0\n[fetch]\nallow_private = true\n"
    config.write_text(slow)
    with Site(pages(keys), ports=2) as site:
        ours, other = site.hosts
        seeds.write_text(f"{site.url('/')}\n{site.url('/', host=1)}\n")
        # Each port a host that is asked for a page at once: else a robots.txt and the other port would come first.
        at_once = ("--host-key", "origin", "--ignore-robots")
        with running(seeds, "--job", job, "--config", config, "--max-depth", "40", "--quiet", *at_once) as process:
            wait_until(lambda: {host for host, _ in keys} == {ours, other}, "the first pages")
            config.write_text(f"{slow}[[site]]\nmatch = '127.0.0.1'\ndelay = -1\n")
            bad = crawler("reload", job)
            assert (bad.code, bad.out) == (2, "")
            assert f"nothing has changed: {config}, line 7: site.delay must be at least 0" in bad.err
            config.write_text("")
            empty = crawler("reload", job)
            assert (empty.code, empty.out) == (2, "")
            config.write_text(
                f"{slow}[crawl]\nconcurrency = 8\nmax_depth = 3\n"
                "[[site]]\nmatch = '127.0.0.1'\nper_host = 1\n"
                f"[[site]]\nmatch = 'http://{ours}'\ndelay = 0.0\nheaders = ['X-Key: env:RELOAD_KEY', 'X-Lang: de']\n"
            )
            assert "RELOAD_KEY" in crawler("reload", job).err, "the secret is missing, so nothing changes"
            (tmp_path / "key").write_text("hush")
            config.write_text(config.read_text().replace("env:RELOAD_KEY", f"file:{tmp_path}/key"))
            good = crawler("reload", job)
            assert (good.code, good.err) == (0, "")
            assert good.out.splitlines() == [
                f"[[site]] (127.0.0.1, http://{ours}) 0 tables -> 2 tables",
                "needs a restart: crawl.concurrency 64 -> 8",
            ]
            # max_depth is not among them: the flag still wins.
            # The other port keeps its 30 s, so that the crawl goes on.
            wait_until(lambda: len(keys) > 40, "many pages, 30 s apart before")
            assert crawler("reload", job).out.splitlines()[-1] == "nothing changed"
            process.terminate()
            assert process.wait(PATIENCE) == 130
    assert {key for host, key in keys if host == other} == {None}
    late = [key for host, key in keys[10:] if host == ours]
    assert set(late) == {"hush"}
    stored = (job / "run.json").read_text()
    assert '"match":"127.0.0.1"' in stored.replace(" ", "")
    assert "hush" not in stored
    stopped = crawler("reload", job)
    assert stopped.code == 1
    assert crawler("reload", tmp_path).code == 2


async def test_a_browser_that_this_run_may_not_start_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\necho Chromium 1.0")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    async def read() -> Settings:
        return Settings(browser=BrowserSettings(when="always", no_sandbox=True))  # which needs a restart

    reloading, parts = Reloading(Settings(), read), list[Any]()
    reloading.parts = Parts(None, parts.append, parts.append)  # type: ignore[arg-type]
    assert isinstance(await reloading.reload(), Refused)
    assert (parts, reloading.settings) == ([], Settings())
