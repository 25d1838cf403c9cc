"""What a running crawl takes over from settings that are read again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from crawler.base.settings.live import merge
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import TABLES, Settings


def test_every_setting_holds_at_once_or_needs_a_restart() -> None:
    tables: dict[str, dict[str, Any]] = {
        "politeness": {"delay": 2.0, "host_key": "domain", "retry_retired": True},
        "crawl": {"max_depth": 3, "concurrency": 8},
        "fetch": {"body_timeout": 5.0, "user_agent": "other/1"},
        "dashboard": {"token": "sixteen-letters-x"},
        "site": {"tables": [{"match": "https://a.org", "login": "env:HUSH", "delay": 1}]},
    }
    now, read = Settings(), settings_from(tables, "crawl.toml")
    merged = merge(now, read)
    assert [change.words for change in merged.changed] == [
        "crawl.max_depth none -> 3",
        "politeness.delay 1.0 -> 2.0",
        "fetch.body_timeout 60.0 -> 5.0",
        "[[site]] (https://a.org) 0 tables -> 1 table",
    ]
    assert [change.setting for change in merged.restart] == [
        "crawl.concurrency",
        "politeness.host_key",
        "politeness.retry_retired",
        "fetch.user_agent",
        "dashboard.token",
    ]
    assert "HUSH" not in repr(merged.changed)
    assert "sixteen" not in repr(merged.restart)
    assert merged.settings.politeness == replace(now.politeness, delay=2.0)
    assert merged.settings.crawl == replace(now.crawl, max_depth=3)
    assert merged.settings.site == read.site
    assert merged.settings.dashboard == now.dashboard
    assert merged.settings.places["politeness", "delay"] == "crawl.toml"
    assert ("politeness", "host_key") not in merged.settings.places


def test_each_setting_is_taken_or_named() -> None:
    """One that is neither would be ignored in silence."""
    for table in TABLES:
        plain = getattr(Settings(), table)
        for name in plain.__struct_fields__:
            value = "bloom" if (table, name) == ("seen", "kind") else "another"  # which errs as the default does
            other = replace(plain, **{name: ("x",) if table in ("priority", "site") else value})
            if table == "site":
                continue
            merged = merge(Settings(), replace(Settings(), **{table: other}))
            assert len(merged.changed) + len(merged.restart) == 1, (table, name)
