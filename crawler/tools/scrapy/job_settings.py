"""The settings of a job for an external fetcher, which controls its own pace and obeys robots.txt itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import Settings
from crawler.job.crawl_file import check_whole
from crawler.job.directory import JobError
from crawler.job.identity import check_fetcher, check_shape, shape_of_job, shaping_of

SEEN_KINDS = ("scalable", "bloom", "counting", "cuckoo", "digest")  # all kinds that do not need the host of a key
FETCHER = "Scrapy"

# The settings that a user can set in Scrapy: their names in Scrapy, the job's settings, and their types.
_CHOICES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "CRAWLER_SEEN": ("seen", "kind", str),
    "CRAWLER_FPP": ("seen", "fpp", float),
    "CRAWLER_CAPACITY": ("seen", "capacity", int),
    "CRAWLER_SYNC_INTERVAL": ("durability", "sync_interval", float),
    "CRAWLER_CHECKPOINT_INTERVAL": ("durability", "checkpoint_interval", float),
}
_KINDS: dict[Any, str] = {float: "a number", int: "a whole number"}

_POLITENESS = {"delay": 0.0, "backoff_first": 0.0, "patience": "endless"}  # disables the frontier's own delays


def choices(chosen: Callable[[str], Any]) -> dict[str, dict[str, Any]]:
    """Return the user's choices by table; ``chosen`` returns a setting of Scrapy, or None. Raises SettingsError."""
    given: dict[str, dict[str, Any]] = {}
    for name, (table, key, kind) in _CHOICES.items():
        value = chosen(name)
        if value is None:
            continue
        try:
            given.setdefault(table, {})[key] = kind(value)
        except (ValueError, TypeError, OverflowError):
            raise SettingsError(f"{name} must be {_KINDS[kind]}, not {value!r}") from None
    kind = given.get("seen", {}).get("kind", SEEN_KINDS[0])
    if kind not in SEEN_KINDS:
        raise SettingsError(f"CRAWLER_SEEN must be one of {', '.join(SEEN_KINDS)}, not {kind!r}")
    return given


def _as_chosen(text: str) -> str:
    """Return the text with the names of settings replaced by those that users of Scrapy know."""
    for name, (table, key, _) in _CHOICES.items():
        text = text.replace(f"{table}.{key}", name)
    return text


def settings_of_job(directory: Path, per_host: int, out: int, given: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Return the settings of a run on the job in the directory. At most ``out`` requests are handed out at a time, at
    most ``per_host`` of them for one host. ``given`` contains the user's ``choices``; an existing job keeps the
    parameters that shaped it, and choices that differ are rejected. Raises JobError, SettingsError."""
    check_whole(directory)
    check_fetcher(directory, FETCHER)
    tables: dict[str, dict[str, Any]] = shape_of_job(directory)
    # The seen-set is looked up before a request is queued, so the result of the lookup need not be confirmed later.
    tables.setdefault("seen", {}).setdefault("ledger", False)
    own: dict[str, dict[str, Any]] = {
        # New hosts may hold a quarter of the slots. That is twice the maximum number of requests handed out, so the
        # frontier never runs out of slots.
        "crawl": {"scope": "any", "concurrency": min(8 * max(out, per_host), 2**16)},
        "robots": {"ignore": True},
        "politeness": _POLITENESS | {"per_host": per_host},
    }
    for chosen in (own, given):
        for table, values in chosen.items():
            tables.setdefault(table, {}).update(values)
    try:
        settings = settings_from(tables, "Scrapy's settings")
        check_shape(directory, shaping_of(settings))
    except SettingsError as error:
        raise SettingsError(_as_chosen(str(error))) from None
    except JobError as error:
        raise JobError(_as_chosen(error.fault), new_job=error.new_job) from None
    return settings
