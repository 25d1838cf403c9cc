"""Shows a job on one screen of a terminal: the dashboard over ssh. Pure: numbers in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crawler.metrics import Course, count, counted, duration, forecast, per_second, probability, size
from crawler.progress.printable import printable

_MARKS = {"good": ("✓", "green"), "wait": ("…", "yellow"), "bad": ("✗", "red"), "over": ("■", "blue")}
_BARS = "▁▂▃▄▅▆▇█"
_KINDS = {"error": "red", "retired": "red", "backoff": "yellow", "checkpoint": "green", "slice": "magenta"}
_ROOMY = 24  # lines; a terminal this high has room for the forecast
_FRAMES = 6  # lines around hosts and events, column heads and the cursor's line


def screen(
    stats: Mapping[str, Any], course: Course, hosts: tuple[int, Sequence[Mapping[str, Any]]], height: int, width: int
) -> RenderableType:
    """Return the screen. ``hosts`` is the number of hosts and the first rows of their table; ``height`` and ``width``
    are in characters."""
    words, ahead = course.words(stats), forecast(stats)
    head = Group(
        _headline(stats, words["working"]),
        _figures(stats, course, width),
        _trust(stats, words["trust"]),
        *([Text(f"  {ahead}")] if ahead and height >= _ROOMY else []),
        _rates(course, width),
    )
    taken = len(Console(width=width, height=height).render_lines(head))
    rows = max(2, height - taken - _FRAMES)
    states = {state: number for state, number in (stats["hosts_by_state"] or {}).items() if number}
    return Group(head, _hosts(*hosts, states, most=max(1, rows * 2 // 3)), _events(course, most=rows - rows * 2 // 3))


def _headline(stats: Mapping[str, Any], working: Mapping[str, str]) -> Text:
    mark, colour = _MARKS[working["mark"]]
    elapsed = stats["elapsed_seconds"]
    lasted = "" if elapsed is None else f" {duration(elapsed)} "
    return Text.assemble((f" {stats['state']} ", f"reverse {colour}"), lasted, (f" {mark} ", colour), working["text"])


def _figures(stats: Mapping[str, Any], course: Course, width: int) -> Text:
    seen, checkpoint = stats["seen"] or {}, stats["checkpoint"] or {}
    met = (stats["urls_duplicate"] or 0) + (stats["urls_admitted"] or 0)
    pages = course.history.mean("pages_per_second", 10.0)
    stall = stats["loop_stall_seconds"]
    age = checkpoint.get("age_seconds")
    cells = [
        ("pages", count(stats["pages_fetched"])),
        ("pages/s", "-" if pages is None else per_second(pages)),
        ("pending", count(stats["urls_pending"])),
        ("in flight", count(stats["urls_in_flight"])),
        ("failed", count(stats["pages_failed"])),
        ("excluded", count(stats["urls_excluded"])),
        ("4xx", count(stats["status"]["4xx"])),
        ("5xx", count(stats["status"]["5xx"])),
        ("seen before", "-" if not met else f"{stats['urls_duplicate'] / met:.1%}"),
        ("hosts pending", f"{count(stats['hosts_pending'])} of {count(stats['hosts'])}"),
        ("seen-set", size(seen.get("bytes"))),
        ("checkpoint", "-" if age is None else f"{duration(age)} ago"),
        ("longest stall", "-" if stall is None else duration(stall["longest"])),
        ("disk free", size(stats["disk_free_bytes"])),
    ]
    text, left = Text(), width
    for name, value in cells:
        # Break lines between two figures, not within one.
        length = len(name) + 1 + len(value)
        if text and length + 3 > left:
            text.append("\n")
            left = width
        elif text:
            text.append("   ")
            left -= 3
        text.append(f"{name} ", "dim").append(value, "bold")
        left -= length
    return text


def _trust(stats: Mapping[str, Any], sentence: str) -> Text:
    seen = stats["seen"] or {}
    estimated, target = seen.get("fpp_estimated"), seen.get("fpp_target")
    worse = estimated is not None and target is not None and estimated > target
    figures = f"fpp {probability(estimated)}, target {probability(target)}, bound {probability(seen.get('fpp_bound'))}"
    return Text.assemble(("✗ ", "red") if worse else ("✓ ", "green"), f"{sentence} ", (f"({figures})", "dim"))


def _rates(course: Course, width: int) -> Text:
    recent = course.history.series()["recent"]
    pages = [value or 0.0 for value in recent["pages_per_second"]][-max(10, width - 34) :]
    most = max(pages, default=0.0)
    bars = "".join(_BARS[min(7, int(8 * value / most))] if most else _BARS[0] for value in pages)
    return Text.assemble(("pages/s, last 5 min ", "dim"), (bars, "blue"), (f" {per_second(most)} at most", "dim"))


def _hosts(total: int, rows: Sequence[Mapping[str, Any]], states: Mapping[str, int], most: int) -> Panel:
    table = Table(box=None, expand=True, pad_edge=False)
    table.add_column("host", no_wrap=True, ratio=3)
    table.add_column("state", no_wrap=True)
    for name in ("pending", "failed", "next", "latency"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True, ratio=4)
    for row in rows[:most]:
        latency, errors = row["latency_seconds"], row["errors"]
        classes = ", ".join(f"{number} {name}" for name, number in errors.items())
        cells = [
            row["host"],
            row["state"],
            count(row["pending"]),
            count(row["failed"]),
            _next(row),
            "-" if latency is None else f"{1000 * latency:,.0f} ms",
            row["reason"] + (f" ({classes})" if classes else ""),
        ]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    title = f"{count(min(most, len(rows)))} of {counted(total, 'host')}, most failures first"
    by_state = ", ".join(f"{state} {count(number)}" for state, number in states.items())
    title += f"; {by_state}" if by_state else ""
    return Panel(table, title=title, title_align="left")


def _next(row: Mapping[str, Any]) -> str:
    if row["next_time"] is None:
        return "-"
    return f"in {duration(row['wait_seconds'])}" if row["wait_seconds"] >= 0.05 else "now"


def _events(course: Course, most: int) -> Panel:
    lines = []
    for event in reversed(course.events.after(0)[-most:]):
        at = datetime.fromtimestamp(event["time"]).astimezone().strftime("%H:%M:%S")
        host = f"{event['host']} " if event["host"] else ""
        kind = (f"{event['kind']:<10} ", _KINDS.get(event["kind"], "bold"))
        words = printable(host + event["text"])
        lines.append(Text.assemble((f"{at} ", "dim"), kind, words, no_wrap=True, overflow="ellipsis"))
    content = Group(*lines) if lines else Text("no events yet", "dim")
    return Panel(content, title="events", title_align="left")
