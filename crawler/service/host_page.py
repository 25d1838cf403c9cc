"""Collects the details of one host for ``/api/hosts/HOST``, from a running crawl or a stopped job."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from crawler.base.kv import Reader
from crawler.base.settings.sites import Sites
from crawler.frontier.entry import queue_of
from crawler.frontier.host_status import HostSnapshot
from crawler.inspect.host_settings import host_settings
from crawler.inspect.host_table import table_row
from crawler.inspect.job_reader import queue
from crawler.job.output.record_reader import decoded
from crawler.job.output.reverse_reader import lines_backwards
from crawler.web.fetch.robots_answers import RobotsCache

_QUEUE_SHOWN = 50
_RECENT_SHOWN = 20
_RECENT_PIECES = 16  # maximum MiB of output to search for the host's latest records


def host_page(store: Reader, sites: Sites, host: HostSnapshot) -> dict[str, Any]:
    """Return all details of one host except its latest records."""
    row, name = table_row(host.row), host.row.host
    own = sites.of_host(name)
    robots = RobotsCache(store, sites.settings.fetch.user_agent).get(name)
    row["robots"] = {
        "asked_at": None if robots is None else robots.asked_at,
        "status": None if robots is None else robots.status,
        "error": None if robots is None or robots.failure is None else robots.failure.text,
        "copy_of": None if robots is None else robots.copy_of,
        "cut": [] if robots is None else robots.rules.cut,
        "crawl_delay": None if robots is None else robots.rules.crawl_delay,
        "until": host.robots_until or None,
        "ignored": own.robots.ignore,
    }
    row["settings"] = [asdict(setting) for setting in host_settings(sites, name)]
    entries = (entry for _, entry in itertools.islice(queue(store, name), _QUEUE_SHOWN))
    row["queue"] = [{"url": entry.href, "depth": entry.depth, "class": entry.priority} for entry in entries]
    return row


def recent(path: Path, end: int | None, name: str) -> Iterator[dict[str, Any] | None]:
    """Yield the latest records of the host before offset ``end`` (None: the end of the file), newest first. Yields
    None at points where the search may be abandoned."""
    start, pieces, shown = b'{"url":"http', 0, 0
    words = name.rpartition(":")[0].encode("ascii")
    for found in lines_backwards(path, end):
        if found is None:
            pieces += 1
            yield None
        elif found[1].startswith(start) and words in found[1]:
            record = decoded(*found, path.name)
            if queue_of(record["url"]) == name:
                shown += 1
                yield record
        if pieces == _RECENT_PIECES or shown == _RECENT_SHOWN:
            return
