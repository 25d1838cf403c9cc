"""``live.json``: the status that a running crawl writes each second, for other processes.

It is valid only while the process that wrote it holds the job's lock. A resumed job does not read it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawler.checkpoint import read_bounded
from crawler.disk import FULL
from crawler.job.directory import LIVE
from crawler.job.job_lock import lock_holder

_SHOWN = 4_096  # URLs in flight that are listed


@dataclass(frozen=True, slots=True)
class Live:
    """The status of a running crawl. ``in_flight``: URLs on lease, with the time of each lease (seconds since 1970).
    ``output_end``: bytes of the output that no crash removes; None if not known yet. ``dashboard``: its address, or
    None. ``events``: the latest events, as returned by ``Events.after``."""

    stats: Mapping[str, Any]
    in_flight: Mapping[str, float]
    output_end: int | None
    dashboard: str | None
    events: Sequence[Mapping[str, Any]]


def write_live(directory: Path, live: Live) -> None:
    """Replace the file. Raises OSError, but not for a full disk, which the crawl itself reports."""
    part = directory / (LIVE + ".part")
    content = {
        "pid": os.getpid(),
        "stats": live.stats,
        "in_flight": dict(itertools.islice(live.in_flight.items(), _SHOWN)),
        "output_end": live.output_end,
        "dashboard": live.dashboard,
        "events": live.events,
    }
    try:
        part.write_text(json.dumps(content), "ascii")
        os.replace(part, directory / LIVE)
    except OSError as error:
        if error.errno not in FULL:
            raise
        part.unlink(missing_ok=True)


def read_live(directory: Path) -> Live | None:
    """The status of the running crawl; None if no crawl is running, or it has not written a status yet."""
    holder = lock_holder(directory)
    if holder is None:
        return None
    try:
        live = json.loads(read_bounded(directory / LIVE, LIVE).decode("ascii"))
    except FileNotFoundError:
        return None
    # A killed process may have left its file behind.
    if live.get("pid") != holder:
        return None
    return Live(live["stats"], live["in_flight"], live["output_end"], live["dashboard"], live["events"])
