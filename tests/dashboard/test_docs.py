"""The documented addresses and names are those that exist."""

from __future__ import annotations

import re
from pathlib import Path

from crawler.crawl.api import CrawlApi
from crawler.dashboard import Dashboard
from crawler.dashboard.events import MOST_LISTENERS
from crawler.metrics import History
from crawler.metrics.history import MOST, RECENT
from crawler.settings import DashboardSettings
from tests.metrics.samples import statistics

TEXT = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text()


async def test_every_address_is_documented_and_no_other() -> None:
    board = Dashboard(DashboardSettings(listen="0"), statistics, float, CrawlApi(lambda: None, float).routes())
    await board.start()
    assert board._runner is not None
    served = {resource.canonical for resource in board._runner.app.router.resources()}
    await board.stop()
    documented = set(re.findall(r"^\| `(/[^`]*)` \|", TEXT, re.MULTILINE))
    assert documented | {"/page/{name}"} == served


def test_every_series_and_limit_is_documented() -> None:
    history = History()
    history.observe(1.0, statistics())
    for name in history.point():
        assert f"`{name}`" in TEXT
    assert f"the last {RECENT} ticks" in TEXT
    assert f"at most {MOST} points" in TEXT
    assert f"at most {MOST_LISTENERS}:" in TEXT
