"""The settings of a job that another fetcher works on: its pace is not ours, and it honours robots.txt itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawler.job.directory import JobError
from crawler.job.identity import check_shape, shape_of_job, shaping_of
from crawler.settings import Settings, settings_from

SEEN_KINDS = ("scalable", "bloom", "counting", "cuckoo", "digest")  # of those, none asks for the host of a key
FETCHER = "Scrapy"

# No gap, no hold and no snooze of ours. Hosts take turns after each request: a session pays only where we connect.
_POLITENESS = {
    "delay": 0.0,
    "errors_max": 0.0,
    "snooze_after": 0,
    "retire_after": 0,
    "retire_throttled": 0,
    "slow_share": 1.0,
    "session_pages": 1,
}


def settings_of_job(directory: Path, per_host: int, out: int, given: Mapping[str, Mapping[str, Any]]) -> Settings:
    """The settings of a run on the job in the directory. So many requests are ``out`` at a time, and so many of one
    host. ``given`` are those that the user chose, by table; a job keeps what shaped it, and refuses another choice.
    Raises JobError, SettingsError."""
    tables: dict[str, dict[str, Any]] = shape_of_job(directory)
    own: dict[str, dict[str, Any]] = {
        # Twice as many slots as there can be requests out: the frontier never lacks any.
        "crawl": {"scope": "any", "concurrency": 2 * max(out, per_host)},
        "robots": {"ignore": True},
        "politeness": _POLITENESS | {"per_host": per_host},
    }
    for chosen in (own, given):
        for table, values in chosen.items():
            tables.setdefault(table, {}).update(values)
    settings = settings_from(tables, "Scrapy's settings")
    if settings.seen.kind not in SEEN_KINDS or settings.seen.ledger:
        raise JobError(f"CRAWLER_SEEN is one of {', '.join(SEEN_KINDS)}, not {settings.seen.kind!r}")
    check_shape(directory, shaping_of(settings))
    return settings
