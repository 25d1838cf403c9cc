"""What a whole crawl answers names no path of the machine, also where something is wrong with its files."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from urllib.parse import quote, urljoin

import pytest

from crawler.base.clock import SteadyClock
from crawler.base.settings.parts import DashboardSettings
from crawler.service.api import Api
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.live_server import Dashboard
from crawler.service.dashboard.token import TOKEN
from crawler.service.file_source import JobSource
from crawler.service.source import SourceView
from tests.asked import asked, free_port, knows
from tests.jobs import CHAIN, OPTIONS, flip, stopped_job
from tests.program import PATIENCE, ROOT, running, wait_until


def test_no_answer_of_a_crawl_names_a_path_of_the_machine(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 10, 20) as made:
        newest = max((made.job / "seen").glob("generation-*"))
        flip(newest, -1)
        config = tmp_path / "chain.toml"
        config.write_text(CHAIN)
        made.site.latency = 0.5
        port = free_port()
        words = (made.seeds, "--job", made.job, "--config", config, *OPTIONS, "--dashboard", str(port))
        with running(*words):
            base = knows(f"http://127.0.0.1:{port}", made.job)
            wait_until(lambda: asked(f"{base}/healthz")[0] == 200, "the dashboard")
            wait_until(
                lambda: b"restored from an older generation" in asked(f"{base}/api/log")[1], "the damage is told"
            )
            host, page = made.site.hosts[0], quote(made.site.url("/page/3"), safe="")
            token = (made.job / TOKEN).read_text().strip()
            looks = [
                "/",
                "/metrics",
                "/api/stats",
                "/api/log",
                "/api/log?after=x",
                "/api/events",
                "/api/hosts",
                "/api/hosts?sort=nothing",
                "/api/hosts?offset=-1",
                f"/api/hosts/{host}",
                "/api/hosts/nobody.example",
                "/api/hosts/..%2f..%2fetc%2fpasswd",
                f"/api/explain?url={page}",
                "/api/explain",
                "/api/explain?url=file%3A%2F%2F%2Fetc%2Fpasswd",
                "/api/nothing",
                "/dashboard-token",
                "/page/..%2f..%2fcrawl%2fjob.py",
            ]
            bodies = [b"", b"{}", b"[]", b'{"urls": ["file:///etc/passwd", 1]}', b'{"urls": ["file:///x"]}']
            bodies += [b'{"do": "nothing"}', b'{"do": "block-host", "host": "../.."}', b'{"do": "checkpoint"}']
            answers = [asked(base + look) for look in looks]
            rights = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            for path in ("/api/urls", "/api/control", "/api/nothing"):
                answers += [asked(base + path, "POST", body, **rights) for body in bodies]
                answers.append(asked(base + path, "POST", b"{}", Authorization="Bearer wrong"))
    assert {200, 400, 401, 404} <= {status for status, _ in answers} <= {200, 400, 401, 404, 409, 503}
    told = b"\n".join(text for _, text in answers).decode()
    assert json.loads(answers[2][1])["urls_admitted"] > 0
    for path in (tmp_path, ROOT, Path.home()):
        assert str(path) not in told.replace("file:///", ""), path
    for word in ("Traceback", "site-packages", ".py", token):
        assert word not in told


@pytest.mark.parametrize("lost", ["job.json", "store/CURRENT"])
async def test_nor_does_a_job_that_is_only_looked_at_and_lost_meanwhile(tmp_path: Path, lost: str) -> None:
    """Nobody looks at the job but who asks: the dashboard of a job that is gone would soon end."""
    with stopped_job(tmp_path, 10) as made:
        job = JobSource(made.job, SteadyClock())
        view, feed = SourceView(job), Feed(dict, SteadyClock())
        settings, routes = DashboardSettings(listen="127.0.0.1:0"), Api(view).routes()
        board = Dashboard(settings, feed, routes, Access("x" * 16))
        base = knows(await board.start(), "x" * 16)
        looks = ["/api/hosts", f"/api/hosts/{made.site.hosts[0]}"]
        looks.append(f"/api/explain?url={quote(made.site.url('/'), safe='')}")
        try:
            assert [(await asyncio.to_thread(asked, urljoin(base, look)))[0] for look in looks] == [200, 200, 200]
            os.replace(made.job / lost, tmp_path / "elsewhere")
            looks[0] += "?limit=9"  # no table that was read lately
            answers = [await asyncio.to_thread(asked, urljoin(base, look)) for look in looks]
        finally:
            await board.stop()
            await view.close()
    for status, text in answers:
        assert status == 500
        assert str(tmp_path) not in text.decode()


def test_a_dashboard_whose_job_is_lost_ends_and_says_so(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 10) as made, running("dashboard", made.job, "--dashboard", "0") as process:
        assert process.stdout.readline().startswith(b"dashboard: ")
        os.replace(made.job / "job.json", tmp_path / "elsewhere")
        assert process.wait(PATIENCE) == 2
        said = process.stderr.read()
    assert said.splitlines()[-1].startswith(b"crawler: error: ")
    assert b"Traceback" not in said
