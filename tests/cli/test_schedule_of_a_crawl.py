"""``[schedule]``: one process crawls, waits, and crawls again, also after a restart."""

from __future__ import annotations

import datetime
import json
import signal
from collections import Counter
from pathlib import Path

from tests.program import crawler, running, wait_until
from tests.site import Site, tree

PAGES = 6
EVERY = 3.0 / 3_600  # hours


def test_rounds_go_on_after_a_restart(tmp_path: Path) -> None:
    job, seeds, config = tmp_path / "job", tmp_path / "seeds.txt", tmp_path / "c.toml"
    config.write_text(f"[schedule]\nevery_hours = {EVERY}\n[fetch]\nallow_private = true\n[politeness]\ndelay = 0.0\n")
    with Site(tree(PAGES)) as site:
        seeds.write_text(site.url("/") + "\n")

        def rounds() -> int:
            visits = Counter(site.pages_asked())
            return min(visits.values()) if len(visits) == PAGES else 0

        for wanted in (2, 4):
            with running(seeds, "--job", job, "--config", config) as crawl:
                wait_until(lambda wanted=wanted: rounds() >= wanted, f"{wanted} rounds")  # type: ignore[misc]
                wait_until(lambda: json.loads(crawler("stats", job, "--json").out)["paused_by"] == "round", "it waits")
                crawl.send_signal(signal.SIGINT)
                assert crawl.wait(30) == 130
    assert crawler("verify", job).code == 0


def test_outside_its_hours_a_crawl_waits_and_says_so(tmp_path: Path) -> None:
    job, seeds, config = tmp_path / "job", tmp_path / "seeds.txt", tmp_path / "c.toml"
    # The window is a minute of a day that is never today or tomorrow, whatever day it is.
    day = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)).strftime("%a")
    config.write_text(f'[schedule]\nhours = ["{day} 12:00-12:01"]\ntime_zone = "UTC"\n[fetch]\nallow_private = true\n')
    with Site(tree(PAGES)) as site:
        seeds.write_text(site.url("/") + "\n")
        with running(seeds, "--job", job, "--config", config) as crawl:
            wait_until(
                lambda: (
                    (job / "live.json").exists()
                    and json.loads(crawler("stats", job, "--json").out)["paused_by"] == "schedule"
                ),
                "it waits",
            )
            config.write_text("[fetch]\nallow_private = true\n[politeness]\ndelay = 0.0\n")
            assert "schedule.hours" in crawler("reload", job).out
            assert crawl.wait(60) == 0
        assert sorted(site.pages_asked()) == sorted(site.url(path) for path in tree(PAGES))
