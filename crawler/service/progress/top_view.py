"""Shows a job on one screen of a terminal: the dashboard over ssh. Pure: numbers in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crawler.base.figures import count, counted, duration, per_second, probability, size
from crawler.base.printable import printable
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.sentences import cause_words, is_above_target
from crawler.service.progress.wrapped import wrapped

_MARKS = {"good": ("✓", "green"), "wait": ("…", "yellow"), "bad": ("✗", "red"), "over": ("■", "blue")}
_BARS = "▁▂▃▄▅▆▇█"
_KINDS = {"error": "red", "retired": "red", "backoff": "yellow", "checkpoint": "green", "slice": "magenta"}
_ROOMY = 24  # lines; a terminal this high has room for the forecast
_WIDE, _WIDEST = 60, 100  # characters from which on there is room for more columns
_FRAMES = 6  # lines around hosts and events, column heads and the cursor's line


def screen(
    stats: Mapping[str, Any],
    history: CrawlHistory,
    hosts: tuple[int, Sequence[Mapping[str, Any]]],
    height: int,
    width: int,
) -> RenderableType:
    """Return the screen. ``hosts`` is the number of hosts and the first rows of their table; ``height`` and ``width``
    are in characters."""
    words = history.words(stats)
    ahead = words["forecast"]
    head = Group(
        _headline(stats, words["working"]),
        _figures(stats, history, width),
        _trust(stats, words["trust"]),
        *([Text(f"  {ahead}")] if ahead and height >= _ROOMY and width >= _WIDE else []),
        _rates(history, width),
    )
    taken = len(Console(width=width, height=height).render_lines(head))
    rows = max(2, height - taken - _FRAMES)
    states = {state: number for state, number in (stats["hosts_by_state"] or {}).items() if number}
    table = _hosts(*hosts, states, most=max(1, rows * 2 // 3), width=width)
    return Group(head, table, _events(history, most=rows - rows * 2 // 3))


def _headline(stats: Mapping[str, Any], working: Mapping[str, str]) -> Text:
    mark, colour = _MARKS[working["mark"]]
    elapsed = stats["elapsed_seconds"]
    lasted = "" if elapsed is None else f" {duration(elapsed)} "
    return Text.assemble((f" {stats['state']} ", f"reverse {colour}"), lasted, (f" {mark} ", colour), working["text"])


def _figures(stats: Mapping[str, Any], history: CrawlHistory, width: int) -> Text:
    seen, checkpoint, by_outcome = stats["seen"] or {}, stats["checkpoint"] or {}, stats["urls_by_outcome"]
    met = (stats["urls_duplicate"] or 0) + (stats["urls_admitted"] or 0)
    pages = stats.get("pages_per_second")
    stall = stats["loop_stall_seconds"]
    age = checkpoint.get("age_seconds")
    cells = [
        ("pages", count(by_outcome["fetched"])),
        ("pages/s", "-" if pages is None else per_second(pages)),
        ("pending", count(stats["urls_pending"])),
        ("in flight", count(stats["urls_in_flight"])),
        ("failed", count(by_outcome["failed"])),
        ("excluded", count(by_outcome["excluded"])),
        ("4xx", count(stats["pages_by_status"]["4xx"])),
        ("5xx", count(stats["pages_by_status"]["5xx"])),
        ("seen before", "-" if not met else f"{stats['urls_duplicate'] / met:.1%}"),
        ("hosts pending", f"{count(stats['hosts_pending'])} of {count(stats['hosts'])}"),
        ("seen-set", size(seen.get("bytes"))),
        ("checkpoint", "-" if age is None else f"{duration(age)} ago"),
        ("longest stall", "-" if stall is None else duration(stall["longest"])),
        ("disk free", size(stats["disk_free_bytes"])),
    ]
    return wrapped((Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in cells), width)


def _trust(stats: Mapping[str, Any], sentence: str) -> Text:
    seen = stats["seen"] or {}
    names = {"fpp": "fpp_estimated", "target": "fpp_target", "bound": "fpp_bound"}
    figures = ", ".join(f"{name} {probability(seen.get(key))}" for name, key in names.items())
    return Text.assemble(
        ("✗ ", "red") if is_above_target(seen) else ("✓ ", "green"), f"{sentence} ", (f"({figures})", "dim")
    )


def _rates(history: CrawlHistory, width: int) -> Text:
    recent = history.figures.series()["recent"]
    label = "pages/s, last 5 min " if width >= _WIDE else "pages/s "
    every = [value or 0.0 for value in recent["pages_per_second"]]
    most = max(every, default=0.0)
    told = f" {per_second(most)} at most"
    pages = every[-max(10, width - len(label) - len(told)) :]
    bars = "".join(_BARS[min(7, int(8 * value / most))] if most else _BARS[0] for value in pages)
    return Text.assemble((label, "dim"), (bars, "blue"), (told, "dim"))


def _hosts(total: int, rows: Sequence[Mapping[str, Any]], states: Mapping[str, int], most: int, width: int) -> Panel:
    # On a narrow terminal: where it stands, and what is left. Each column has its name, and the least width to show it.
    columns = [("state", 0), ("pending", 0), ("failed visits", _WIDE), ("next", _WIDE), ("latency", _WIDEST)]
    shown = [name for name, least in columns if width >= least]
    table = Table(box=None, expand=True, pad_edge=False)
    table.add_column("host", no_wrap=True, ratio=3)
    for name in shown:
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    if width >= _WIDEST:
        table.add_column("why", no_wrap=True, ratio=4)
    for row in rows[:most]:
        cells = _cells(row)
        names = ["host", *shown, *(["why"] if width >= _WIDEST else [])]
        table.add_row(*(Text(printable(cells[name])) for name in names))
    title = f"{count(min(most, len(rows)))} of {counted(total, 'host')}, most failed visits first"
    by_state = ", ".join(f"{state} {count(number)}" for state, number in states.items())
    title += f"; {by_state}" if by_state and width >= _WIDE else ""
    return Panel(table, title=title if width >= _WIDE else counted(total, "host"), title_align="left")


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    latency, errors = row["latency_seconds"], row["errors"]
    classes = ", ".join(f"{number} {cause_words(name)}" for name, number in errors.items())
    return {
        "host": row["host"],
        "state": row["state"],
        "pending": count(row["pending"]),
        "failed visits": count(row["failed"]),
        "next": _next(row),
        "latency": "-" if latency is None else f"{1000 * latency:,.0f} ms",
        "why": row["reason"] + (f" ({classes})" if classes else ""),
    }


def _next(row: Mapping[str, Any]) -> str:
    if row["next_time"] is None:
        return "-"
    return f"in {duration(row['wait_seconds'])}" if row["wait_seconds"] >= 0.05 else "now"


def _events(history: CrawlHistory, most: int) -> Panel:
    lines = []
    for event in reversed(history.events.after(0)[-most:]):
        at = datetime.fromtimestamp(event["time"]).astimezone().strftime("%H:%M:%S")
        host = f"{event['host']} " if event["host"] else ""
        kind = (f"{event['kind']:<10} ", _KINDS.get(event["kind"], "bold"))
        words = printable(host + event["text"])
        lines.append(Text.assemble((f"{at} ", "dim"), kind, words, no_wrap=True, overflow="ellipsis"))
    content = Group(*lines) if lines else Text("no events yet", "dim")
    return Panel(content, title="events", title_align="left")
