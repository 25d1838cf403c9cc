"""Shows a job on one terminal screen, like the dashboard but over ssh. Pure: numbers in, lines out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from rich.text import Text

from crawler.base.figures import count, counted, duration, size
from crawler.base.printable import printable
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.sentences import cause_words
from crawler.service.progress.summary import summary
from crawler.service.progress.text_table import text_table

_HEADS = ("host", "state", "pending", "failed visits", "next", "latency")
_BETWEEN = 5  # lines for titles and gaps, and the cursor


def screen(
    stats: Mapping[str, Any],
    history: CrawlHistory,
    hosts: tuple[int, Sequence[Mapping[str, Any]]],
    height: int,
) -> Text:
    """Return the screen: the summary of the crawl, its hosts with most failed visits, and its latest events. ``hosts``
    is the number of hosts and the first rows of their table; ``height`` is in lines."""
    total, rows = hosts
    head = [history.words(stats)["working"]["text"], _machine(stats), *summary(stats).splitlines()]
    left = max(6, height - len(head) - _BETWEEN)
    shown = rows[: max(1, left * 2 // 3 - 2)]
    reasons = ["why", "", *map(_why, shown)]
    table = text_table(_HEADS, [_cells(row) for row in shown])
    lines = [
        *head,
        "",
        f"{count(len(shown))} of {counted(total, 'host')}, most failed visits first",
        *(f"{line}  {why}" for line, why in zip(table, reasons, strict=True)),
        "",
        "events, latest first",
        *islice(_events(history), left // 3),
    ]
    return Text("\n".join(printable(line).rstrip() for line in lines), no_wrap=True, overflow="ellipsis")


def _machine(stats: Mapping[str, Any]) -> str:
    """Return the figures of the process and its machine."""
    checkpoint, stall = stats["checkpoint"] or {}, stats["loop_stall_seconds"] or {}
    times = {"checkpoint": checkpoint.get("age_seconds"), "longest stall": stall.get("longest")}
    cells = [f"{name} {'-' if value is None else duration(value)}" for name, value in times.items()]
    sizes = {"memory": stats["memory_bytes"], "disk free": stats["disk_free_bytes"]}
    return "   ".join([*cells, *(f"{name} {size(value)}" for name, value in sizes.items())])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    latency, due = row["latency_seconds"], "-"
    if row["next_time"] is not None:
        due = f"in {duration(row['wait_seconds'])}" if row["wait_seconds"] >= 0.05 else "now"
    taken = "-" if latency is None else f"{1000 * latency:,.0f} ms"
    return (row["host"], row["state"], count(row["pending"]), count(row["failed"]), due, taken)


def _why(row: Mapping[str, Any]) -> str:
    classes = ", ".join(f"{number} {cause_words(name)}" for name, number in row["errors"].items())
    return f"{row['reason']} ({classes})" if classes else str(row["reason"])


def _events(history: CrawlHistory) -> Iterator[str]:
    for event in reversed(history.events.after(0)):
        at = datetime.fromtimestamp(event["time"]).astimezone().strftime("%H:%M:%S")
        host = f"{event['host']} " if event["host"] else ""
        yield f"{at} {event['kind']:<10} {host}{event['text']}"
