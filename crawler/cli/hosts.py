"""``crawler hosts DIR``: prints the hosts of a job."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec.structs import asdict

from crawler.base.figures import counted
from crawler.base.printable import printable, terminal
from crawler.base.settings.sites import Sites
from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit
from crawler.cli.options import whole_number
from crawler.cli.subject import add_subject
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.crawl_reader import hosts_of
from crawler.inspect.host_settings import DEFAULT, SettingInForce, host_settings, setting_words
from crawler.inspect.host_table import SORTS, HostsAsked, Row, Table
from crawler.job.metrics.sentences import cause_words
from crawler.job.run_settings import read_run

_ASCENDING = ("host", "state", "next_time", "wait_seconds", "rule")
_WIDE = 140  # width from which a terminal has room for the reasons next to the figures
_TEXTS = ("host", "state")
_COLUMNS = (*_TEXTS, "pending", "in flight", "fetched", "failed", "gap", "next")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--sort", choices=SORTS, default="pending", help="column (pending)")
    parser.add_argument("--order", choices=("asc", "desc"), help="desc, but asc for host, state and the times")
    parser.add_argument("--limit", type=whole_number, default=50, metavar="N", help="rows (50)")
    parser.add_argument(
        "--settings",
        action="store_true",
        help="also show the settings that the configuration or a flag sets for each host",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    (total, found), fault = _found(arguments)
    if arguments.json:
        print(json.dumps({"total": total, "settings_fault": fault, "hosts": found}, indent=2))
        return Exit.OK
    # Host names are never cut, because programs search for them.
    narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE
    for line in _lines(found, narrow=narrow):
        print(printable(line), file=terminal(sys.stdout))
    if total > len(found):
        print(f"{len(found)} of {counted(total, 'host')}; --limit shows more")
    return Exit.OK


def _found(arguments: argparse.Namespace) -> tuple[Table, str | None]:
    """Return the table of a job or a crawl and, if the settings of a last run cannot be read, the reason. Raises the
    errors of ``open_job``."""
    say_defaults(arguments.job)
    order = arguments.order or ("asc" if arguments.sort in _ASCENDING else "desc")
    found = hosts_of(arguments.job, HostsAsked(arguments.sort, order == "desc", limit=arguments.limit))
    runs = {each.number: read_run(each.directory) for each in crawl_partitions(arguments.job).found}
    if arguments.settings:
        sites = {number: Sites(run.settings) for number, run in runs.items()}
        for row in found.rows:
            row["settings"] = list(map(asdict, host_settings(sites[row.get("partition", 0)], row["host"])))
    return found, next((run.fault for run in runs.values() if run.fault is not None), None)


def _lines(rows: list[Row], *, narrow: bool) -> Iterator[str]:
    """Yield a table: a line for each host, followed by its settings. A ``narrow`` table gives the reason for a state on
    a separate line, and omits the requests in flight."""
    leaves_out = ("in flight",) if narrow else ()
    table = [{name: name for name in _COLUMNS}, *(_cells(row) for row in rows)]
    shown = [name for name in _COLUMNS if name not in leaves_out]
    width = {name: max(len(cells[name]) for cells in table) for name in shown}
    for cells, row in zip(table, [None, *rows], strict=True):
        aligned = (f"{cells[name]:{'<' if name in _TEXTS else '>'}{width[name]}}" for name in shown)
        why = "why" if row is None else _why(row)
        yield "  ".join([*aligned, *([] if narrow else [why])]).rstrip()
        if narrow and row is not None and why != row["state"]:
            yield f"    {why}"
        for setting in (SettingInForce(**each) for each in (row or {}).get("settings", ())):
            if setting.place != DEFAULT:
                yield f"  {setting_words(setting)}"


def _cells(row: Row) -> dict[str, str]:
    gap = "" if row["gap_seconds"] is None else f"{row['gap_seconds']:.3g} s"
    counts = (row["pending"], row["in_flight"], row["fetched"], row["failed"])
    return dict(zip(_COLUMNS, (row["host"], row["state"], *map(str, counts), gap, _next(row)), strict=True))


def _why(row: Row) -> str:
    errors = ", ".join(f"{count} {cause_words(kind)}" for kind, count in row["errors"].items())
    why = row["reason"] + (f" ({errors})" if errors else "")
    if row["needs_scripts"]:
        why += f"; {counted(row['needs_scripts'], 'page')} with signs of needing scripts"
    return str(why).removeprefix("; ")


def _next(row: Row) -> str:
    if row["next_time"] is None:
        return ""
    if not row["wait_seconds"]:
        return "now" if row["state"] in ("ready", "leased", "robots") else "queued"
    return datetime.fromtimestamp(row["next_time"], UTC).strftime("%m-%d %H:%M:%SZ")
