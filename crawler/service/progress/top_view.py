"""Shows a job on one terminal screen, like the dashboard but over ssh. Pure: numbers in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crawler.base.figures import count, counted, duration, size
from crawler.base.printable import printable
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.sentences import cause_words, is_above_target
from crawler.service.progress.summary import figures

_MARKS = {"good": ("✓", "green"), "wait": ("…", "yellow"), "bad": ("✗", "red"), "over": ("■", "blue")}
_BARS = "▁▂▃▄▅▆▇█"
_KINDS = {"error": "red", "retired": "red", "backoff": "yellow", "checkpoint": "green", "slice": "magenta"}
_ROOMY, _ROOMIER = 24, 32  # minimum heights in lines for sparklines, and for the forecast
_WIDE, _WIDEST = 60, 100  # minimum widths in characters for more columns
_FRAMES = 6  # lines for the frames around hosts and events, column heads and the cursor


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
        _figures(stats, history, width, roomy=height >= _ROOMY and width >= _WIDE),
        _trust(stats, words["trust"]),
        *([Text(f"  {ahead}")] if ahead and height >= _ROOMIER and width >= _WIDE else []),
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


def _figures(stats: Mapping[str, Any], history: CrawlHistory, width: int, *, roomy: bool) -> RenderableType:
    """Return the six figures of the page, each with a sparkline of the last five minutes if the terminal is large
    enough."""
    checkpoint, stall = stats["checkpoint"] or {}, stats["loop_stall_seconds"] or {}
    beside = {"checkpoint": checkpoint.get("age_seconds"), "longest stall": stall.get("longest")}
    cells = [(name, "-" if value is None else duration(value)) for name, value in beside.items()]
    cells += [("memory", size(stats["memory_bytes"])), ("disk free", size(stats["disk_free_bytes"]))]
    shown = figures(stats)
    if not roomy:
        cells = [(name, value) for name, value, _, _ in shown] + cells
    others = Columns((Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in cells), padding=(0, 3))
    recent = history.figures.series()["recent"] if roomy else {}
    lines = [
        Text.assemble(
            (f"{name:<18}", "dim"), (f"{value:>14}  ", "bold"), (f"{note:<26}" if width >= _WIDEST else "", "dim")
        )
        for name, value, note, _ in (shown if roomy else ())
    ]
    for line, (*_, key) in zip(lines, shown, strict=False):
        line.append(_bars(recent[key], width - line.cell_len), "blue")
    return Group(*lines, others)


def _bars(values: Sequence[float | None], width: int) -> str:
    """Return a sparkline of the last values."""
    last = [value or 0.0 for value in values[-max(1, width) :]]
    most = max(last, default=0.0)
    return "".join(_BARS[min(7, int(8 * value / most))] if most else _BARS[0] for value in last)


def _trust(stats: Mapping[str, Any], sentence: str) -> Text:
    return Text.assemble(("✗ ", "red") if is_above_target(stats["seen"] or {}) else ("✓ ", "green"), sentence)


def _hosts(total: int, rows: Sequence[Mapping[str, Any]], states: Mapping[str, int], most: int, width: int) -> Panel:
    # Each column has a minimum terminal width; narrow terminals show only the state and the pending URLs.
    columns = [("state", 0), ("pending", 0), ("failed visits", _WIDE), ("next", _WIDE), ("latency", _WIDEST)]
    shown = [name for name, least in columns if width >= least]
    table = Table(box=None, expand=True, pad_edge=False)
    table.add_column("host", no_wrap=True, ratio=3)
    for name in shown:
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    if width >= _WIDEST:
        table.add_column("why", no_wrap=True, ratio=4)
    # Finished hosts are only counted in the title, unless all hosts are finished.
    at_work = [row for row in rows if row["state"] != "idle"]
    rows = (at_work or sorted(rows, key=lambda row: -row["failed"]))[:most]
    for row in rows:
        cells = _cells(row)
        names = ["host", *shown, *(["why"] if width >= _WIDEST else [])]
        table.add_row(*(Text(printable(cells[name])) for name in names))
    title = (
        f"{count(len(rows))} of {counted(total, 'host')}, {'those at work' if at_work else 'most failed visits'} first"
    )
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
