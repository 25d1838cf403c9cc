"""``crawler tail`` and ``crawler hosts``: what a job brings, and whom it asks."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crawler.cli.errors import Exit
from crawler.cli.look import guarded
from crawler.clock import SteadyClock
from crawler.crawl.hosts import SORTS, Row, choose, host_rows
from crawler.crawl.identity import JobError
from crawler.crawl.live import read_live
from crawler.crawl.look import open_job
from crawler.crawl.tail import Tail
from crawler.records import Outcome
from crawler.urls import host_key

_POLL = 0.25  # seconds between two looks at the job
_BUSY = 10.0  # seconds that a job may be in use without saying how far it is


def add_parsers(commands: Any) -> None:
    tail = commands.add_parser(
        "tail",
        help="the records of a job as they come, each once",
        description="Records as they stand in pages.jsonl, when nothing takes them back any more.",
    )
    tail.add_argument("job", type=Path, metavar="DIR")
    tail.add_argument("-n", type=_count, default=10, metavar="N", help="the last N records first (10)")
    tail.add_argument("--all", action="store_true", help="all records first")
    tail.add_argument("--follow", "-f", action="store_true", help="then those that come, over any number of runs")
    tail.add_argument(
        "--outcome", action="append", default=[], choices=[outcome.value for outcome in Outcome], help="only these"
    )
    tail.set_defaults(run=guarded(_tail))
    hosts = commands.add_parser("hosts", help="the hosts of a job, running or not: state, pending, next time, why")
    hosts.add_argument("job", type=Path, metavar="DIR")
    hosts.add_argument("--sort", choices=SORTS, default="pending", help="column (pending)")
    hosts.add_argument("--order", choices=("asc", "desc"), help="desc, but asc for host, state and the times")
    hosts.add_argument("--limit", type=_count, default=50, metavar="N", help="rows (50)")
    hosts.add_argument("--json", action="store_true", help="one JSON object")
    hosts.set_defaults(run=guarded(_hosts))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)


def _tail(arguments: argparse.Namespace) -> int:
    tail = Tail(arguments.job, arguments.outcome)
    out = sys.stdout.buffer
    if not arguments.all:
        deadline = time.monotonic() + _BUSY
        while (lines := tail.last(arguments.n)) is None:
            if time.monotonic() > deadline:
                raise JobError(f"{arguments.job} is in use by a process that shows no records: try again later")
            time.sleep(_POLL)
        out.writelines(lines)
    while True:
        for line in tail.more():
            out.write(line)
        out.flush()
        if not arguments.follow:
            return Exit.OK
        time.sleep(_POLL)


_ASCENDING = ("host", "state", "next_time", "wait_seconds", "rule")


def _hosts(arguments: argparse.Namespace) -> int:
    live = read_live(arguments.job)
    in_flight = Counter(map(host_key, {} if live is None else live.in_flight))
    order = arguments.order or ("asc" if arguments.sort in _ASCENDING else "desc")
    with open_job(arguments.job) as job:
        rows = host_rows(job.store, job.settings, SteadyClock()(), in_flight)
        chosen = choose(rows, sort=arguments.sort, descending=order == "desc", limit=arguments.limit)
        ((total, found),) = [each for each in chosen if each is not None]
    if arguments.json:
        print(json.dumps({"total": total, "hosts": found}, indent=2))
        return Exit.OK
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_table(found))
    if total > len(found):
        console.print(f"{len(found)} of {total} hosts; --limit shows more")
    return Exit.OK


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
        table.add_row(row["host"], row["state"], *map(str, counts), gap, _next(row), why)
    return table


def _next(row: Row) -> str:
    if row["next_time"] is None:
        return ""
    if not row["wait_seconds"]:
        return "now"
    return datetime.fromtimestamp(row["next_time"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
