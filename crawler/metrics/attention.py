"""What about a crawl needs somebody. Pure: a function of the mapping of ``stats --json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from crawler.figures import count, counted
from crawler.metrics.sentences import nothing_fetched, suspicion

RETIRED_LEAST = 10  # hosts given up, and ...
RETIRED_SHARE = 0.1  # ... of all hosts: fewer are the usual dead links


class Need(NamedTuple):
    """A reason to look at a crawl. ``kind`` stays the same while the reason does; ``text`` is one line without its full
    stop."""

    kind: str
    text: str


def needs(stats: Mapping[str, Any]) -> list[Need]:
    """Return what about a crawl somebody should see to, the most urgent first."""
    found = []
    if nothing := nothing_fetched(stats):
        found.append(Need("nothing-fetched", nothing))
    if stats.get("paused_by") == "disk":
        found.append(Need("disk-full", f"{stats['paused']}; it resumes by itself when there is space"))
    if (stats.get("seen") or {}).get("count_suspect"):
        found.append(Need("seen-suspect", f"the seen-set cannot be trusted: {suspicion(stats['seen'])}"))
    if stats.get("paused_by") == "outage":
        found.append(Need("outage", f"{stats['paused']}; it resumes by itself when a host answers"))
    failed = stats.get("pages_code_failed") or 0
    calls = sum((stats.get("calls_code_failed") or {}).values())
    if failed or calls:
        met = [counted(failed, "page")] if failed else []
        met += [counted(calls, "other call")] if calls else []
        found.append(Need("code-fails", f"code of yours failed on {' and '.join(met)}"))
    hosts, retired = stats.get("hosts") or 0, (stats.get("hosts_by_state") or {}).get("retired") or 0
    if retired >= RETIRED_LEAST and retired >= RETIRED_SHARE * hosts:
        found.append(Need("hosts-retired", f"{count(retired)} of {counted(hosts, 'host')} were given up"))
    failing = (stats.get("proxies") or {}).get("failing") or 0
    if failing:
        found.append(Need("proxy-fails", f"nothing comes through {counted(failing, 'proxy', 'proxies')}"))
    return found
