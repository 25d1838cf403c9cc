"""``live.json``: the status that a running crawl writes each second, for other processes.

It counts only while the process that wrote it holds the job's lock; nothing is resumed from it.
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

_SHOWN = 4_096  # URLs in flight that are named


@dataclass(frozen=True, slots=True)
class Live:
    """``in_flight``: URLs handed out, and since when (seconds since 1970); ``output_end``: bytes of the output that no
    crash takes back, None when that is not known yet; ``dashboard``: its address, or None; ``events``: the last of what
    happened, as ``Events.after`` has them."""

    stats: Mapping[str, Any]
    in_flight: Mapping[str, float]
    output_end: int | None
    dashboard: str | None
    events: Sequence[Mapping[str, Any]]


def write_live(directory: Path, live: Live) -> None:
    """Replace the file. Raises OSError for any trouble but a full disk: where that is the crawl itself says so."""
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
    """None when no crawl is running, or it has said nothing yet."""
    holder = lock_holder(directory)
    if holder is None:
        return None
    try:
        live = json.loads(read_bounded(directory / LIVE, LIVE).decode("ascii"))
    except FileNotFoundError:
        return None
    # A file that a killed process left behind says nothing of the one that runs now.
    if live.get("pid") != holder:
        return None
    return Live(live["stats"], live["in_flight"], live["output_end"], live["dashboard"], live["events"])
