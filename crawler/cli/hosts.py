"""``crawler hosts DIR``: prints the hosts of a job."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit
from crawler.cli.options import whole_number
from crawler.inspect.crawl_partitions import crawl_partitions, holds_crawl
from crawler.inspect.crawl_reader import merged_hosts
from crawler.inspect.host_settings import DEFAULT, SettingInForce, host_settings, setting_words
from crawler.inspect.host_table import SORTS, HostTableSettings, Row, Selection, all_host_rows
from crawler.inspect.hosts_now import hosts_now
from crawler.inspect.job_reader import open_job
from crawler.inspect.sort_values import SortValues
from crawler.job.clock_anchor import job_time
from crawler.job.live_status import read_live
from crawler.metrics import counted
from crawler.progress.printable import printable, terminal

_ASCENDING = ("host", "state", "next_time", "wait_seconds", "rule")


_PIPED_WIDTH = 160  # where nobody says how wide it is


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("--sort", choices=SORTS, default="pending", help="column (pending)")
    parser.add_argument("--order", choices=("asc", "desc"), help="desc, but asc for host, state and the times")
    parser.add_argument("--limit", type=whole_number, default=50, metavar="N", help="rows (50)")
    parser.add_argument(
        "--settings",
        action="store_true",
        help="also the settings that the configuration or a flag states for each host",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    say_defaults(arguments.job)
    faults = list[str]()
    if holds_crawl(arguments.job):
        order = _Order.of(arguments)
        selection = Selection(sort=order.sort, descending=order.descending, limit=order.limit)
        crawl = crawl_partitions(arguments.job)
        total, found = merged_hosts(crawl, lambda directory: _ranked(directory, arguments, faults), selection)
    else:
        total, found = _ranked(arguments.job, arguments, faults)
    fault = faults[0] if faults else None
    if arguments.json:
        print(json.dumps({"total": total, "settings_fault": fault, "hosts": found}, indent=2))
        return Exit.OK
    # In a pipe names of hosts stay whole, for the programs that look for them, whatever COLUMNS says of the terminal.
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    console = Console(file=terminal(sys.stdout), width=width)
    console.print(_table(found))
    if total > len(found):
        console.print(f"{len(found)} of {counted(total, 'host')}; --limit shows more")
    return Exit.OK


class _Order(NamedTuple):
    """What is asked for."""

    sort: str
    descending: bool
    limit: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> _Order:
        order = arguments.order or ("asc" if arguments.sort in _ASCENDING else "desc")
        return cls(arguments.sort, order == "desc", arguments.limit)


def _ranked(directory: Path, arguments: argparse.Namespace, faults: list[str]) -> tuple[int, list[Row]]:
    """Return how many hosts a job has, and the first rows of its table. Adds to ``faults`` why the settings of its last
    run cannot be read. Raises what ``open_job`` raises."""
    live, order = read_live(directory), _Order.of(arguments)
    with open_job(directory) as job:
        settings, now = HostTableSettings.of(job.settings), job_time(job.store)
        beside = hosts_now(live, job.store, job.settings, now)
        told = SortValues(order.sort, settings, now, beside.serving).of_record
        selection = Selection(sort=order.sort, descending=order.descending, limit=order.limit, told=told)
        rows = all_host_rows(job.store, settings, now, beside, selection.wants)
        selection.add(row for row in rows if row is not None)
        if job.settings_fault is not None:
            faults.append(job.settings_fault)
    found = selection.rows()
    if arguments.settings:
        found = [row | {"settings": list(map(asdict, host_settings(settings.sites, row["host"])))} for row in found]
    return selection.total, found


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("host", "state"):
        table.add_column(column, overflow="fold")
    for column in ("pending", "in flight", "fetched", "failed", "gap", "next"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in rows:
        counts = (row["pending"], row["in_flight"], row["fetched"], row["failed"])
        gap = "" if row["gap_seconds"] is None else f"{row['gap_seconds']:.3g} s"
        errors = ", ".join(f"{count} {kind}" for kind, count in row["errors"].items())
        why = row["reason"] + (f" ({errors})" if errors else "")
        cells = (row["host"], row["state"], *map(str, counts), gap, _next(row), why)
        table.add_row(*(Text(printable(cell)) for cell in cells))  # rich would read a str as markup
        for setting in (SettingInForce(**each) for each in row.get("settings", ())):
            if setting.place != DEFAULT:
                table.add_row(Text(printable(f"  {setting_words(setting)}")))
    return table


def _next(row: Row) -> str:
    if row["next_time"] is None:
        return ""
    if not row["wait_seconds"]:
        return "now" if row["state"] in ("ready", "leased", "robots") else "queued"
    return datetime.fromtimestamp(row["next_time"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
