"""The settings that hold for a host, and where each of them comes from."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.cli import main
from crawler.cli.toml_lines import FileSource
from crawler.inspect.explanation import Wait, explain_url
from crawler.inspect.host_settings import DEFAULT, SettingInForce, host_settings, url_settings
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.run_settings import RUN, read_run, write_run
from crawler.service.explanation_text import explanation_lines
from crawler.url.scope.priority_rules import PriorityRules

NOON = 1_700_049_600.0  # of a day in UTC

TOML = """\
[politeness]
per_host = 2

[[site]]
match = "*.a.org"
delay = 5.0
exclude = ["/x"]

[[site]]
match = "https://a.org"
headers = ["X-Key: hush"]
login = "env:LOGIN"
rate = 2.0
priority = 3
"""


def stated() -> Settings:
    tables = tomllib.loads(TOML) | {"robots": {"ignore": True}}
    return settings_from(
        tables, FileSource("crawl.toml", TOML, {("robots", "ignore"): "command line, --ignore-robots"})
    )


def test_each_setting_has_the_line_or_the_flag_that_states_it() -> None:
    found = {each.key: each for each in host_settings(Sites(stated()), "a.org:443")}
    assert found["delay"] == SettingInForce("delay", 5.0, "crawl.toml, line 6")
    assert found["per_host"] == SettingInForce("per_host", 2, "crawl.toml, line 2")
    assert found["ignore_robots"] == SettingInForce("ignore_robots", True, "command line, --ignore-robots")
    assert found["headers"] == SettingInForce("headers", ["X-Key"], "crawl.toml, line 11")
    assert found["rate"].value == 2.0
    assert "hush" not in repr(found)
    other = {each.key: each for each in host_settings(Sites(stated()), "b.org:443")}
    assert other["delay"] == SettingInForce("delay", 1.0, DEFAULT)
    assert "headers" not in other
    rules = PriorityRules.of_settings(stated())
    assert rules.explain("https://a.org/", 0, seed=True) == "Class 3 by [[site]] 2 (crawl.toml, line 14)."
    last = url_settings(Sites(stated()), "a.org:443", "https://a.org/")[-1]
    assert last == SettingInForce("priority", 3, "crawl.toml, line 14")


def test_a_job_remembers_where_its_settings_came_from_and_no_secret(tmp_path: Path) -> None:
    with DurableFrontier(tmp_path / "job") as frontier:
        frontier.add("https://a.org/x")
    write_run(RealDisk(), tmp_path / "job", stated())
    stored = (tmp_path / "job" / RUN).read_text()
    assert "hush" not in stored
    known = read_run(tmp_path / "job")
    assert known.fault is None
    assert host_settings(Sites(known.settings), "a.org:443") == host_settings(Sites(stated()), "a.org:443")
    found = explain_url(tmp_path / "job", "https://a.org/x")
    lines = [text for what, text in explanation_lines(found) if what.startswith("setting")]
    assert lines[0] == "delay 5.0 (crawl.toml, line 6)"
    assert json.loads(json.dumps(found.as_json()))["settings"][0]["place"] == "crawl.toml, line 6"


def test_the_hosts_table_and_explain_tell_of_closed_hours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    night = {"hours": ["00:00-24:00"], "time_zone": "UTC"}
    with DurableFrontier(tmp_path / "job", clock=lambda: NOON) as frontier:
        frontier.add("https://a.org/x")
    tables = {"site": [{"match": "a.org", "hours": ["22:00-06:00"], "time_zone": "UTC"}], "politeness": night}
    write_run(RealDisk(), tmp_path / "job", settings_from(tables, "crawl.toml"))
    found = explain_url(tmp_path / "job", "https://a.org/x", NOON)
    assert found.place is not None
    upcoming = found.place.next
    assert upcoming is not None
    assert (upcoming.waits_for, upcoming.not_before) == (Wait.HOST_HELD, NOON + 10 * 3_600)
    assert main(["hosts", str(tmp_path / "job"), "--settings"]) == 0
    said = capsys.readouterr().out
    assert "hours 22:00-06:00 (crawl.toml)" in said
    assert "delay" not in said, "a default"
