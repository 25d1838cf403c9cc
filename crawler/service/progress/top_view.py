"""Shows a job on one terminal screen, like the dashboard but over ssh. Pure: numbers in, lines out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from rich.text import Text

from crawler.base.figures import counted, duration, size
from crawler.base.printable import printable
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.service.progress.summary import summary

_BETWEEN = 5  # lines for titles and gaps, and the cursor


def screen(stats: Mapping[str, Any], history: CrawlHistory, hosts: Sequence[str], height: int) -> Text:
    """Return the screen: the summary of the crawl, its hosts with most failed visits, and its latest events. ``hosts``
    are the lines of their table; ``height`` is in lines."""
    head = [history.words(stats)["working"]["text"], _machine(stats), *summary(stats).splitlines()]
    left = max(6, height - len(head) - _BETWEEN)
    title = f"{counted(stats['hosts'], 'host')}, most failed visits first"
    events = islice(_events(history), left // 3)
    lines = [*head, "", title, *hosts[: left * 2 // 3], "", "events, latest first", *events]
    return Text("\n".join(printable(line).rstrip() for line in lines), no_wrap=True, overflow="ellipsis")


def _machine(stats: Mapping[str, Any]) -> str:
    """Return the figures of the process and its machine."""
    checkpoint, stall = stats["checkpoint"] or {}, stats["loop_stall_seconds"] or {}
    times = {"checkpoint": checkpoint.get("age_seconds"), "longest stall": stall.get("longest")}
    cells = [f"{name} {'-' if value is None else duration(value)}" for name, value in times.items()]
    sizes = {"memory": stats["memory_bytes"], "disk free": stats["disk_free_bytes"]}
    return "   ".join([*cells, *(f"{name} {size(value)}" for name, value in sizes.items())])


def _events(history: CrawlHistory) -> Iterator[str]:
    for event in reversed(history.events.after(0)):
        at = datetime.fromtimestamp(event["time"]).astimezone().strftime("%H:%M:%S")
        host = f"{event['host']} " if event["host"] else ""
        yield f"{at} {event['kind']:<10} {host}{event['text']}"
