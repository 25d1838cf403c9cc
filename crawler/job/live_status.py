"""``live.json``: the status that a running crawl writes every second, for other processes.

It is valid only while the process that wrote it holds the job's lock. A resumed job does not read it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from crawler.base.disk import FULL, private_opener
from crawler.job.checkpoint.envelope import read_bounded
from crawler.job.directory import LIVE
from crawler.job.job_lock import lock_holder

_SHOWN = 4_096  # maximum number of URLs in flight listed
_SPARE = 1_024  # blanks at the end, to leave room for longer figures when the file is overwritten


class Live(Struct, frozen=True):
    """The status of a running crawl.

    ``in_flight``: leased URLs, with the time of each lease (seconds since 1970). ``side_requests``: hosts whose
    robots.txt or address is being requested, with the time of each lease. ``output_end``: the number of durable bytes
    of the output; None if not known yet. ``dashboard``: its address, or None. ``events``: the latest events, as
    returned by ``Events.after``."""

    stats: Mapping[str, Any]
    in_flight: Mapping[str, float]
    output_end: int | None
    dashboard: str | None
    events: Sequence[Mapping[str, Any]]
    side_requests: Mapping[str, float] = field(default_factory=dict)


def write_live(directory: Path, live: Live) -> None:
    """Replace the file; on a full disk overwrite it, without the URLs and events. Raises OSError."""
    part, path = directory / (LIVE + ".part"), directory / LIVE
    content = {
        "pid": os.getpid(),
        **asdict(live),
        "in_flight": dict(itertools.islice(live.in_flight.items(), _SHOWN)),
        "side_requests": dict(itertools.islice(live.side_requests.items(), _SHOWN)),
    }
    try:
        with open(part, "w", encoding="ascii", opener=private_opener) as stream:
            stream.write(json.dumps(content) + " " * _SPARE)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        if error.errno not in FULL:
            raise
        _write_over(path, json.dumps({**content, "in_flight": {}, "events": [], "side_requests": {}}).encode("ascii"))


def _write_over(path: Path, data: bytes) -> None:
    """Overwrite the file without changing its length; do nothing if ``data`` is too long."""
    try:
        with path.open("r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if len(data) <= size:
                file.write(data.ljust(size))
    except FileNotFoundError:
        return


def read_live(directory: Path) -> Live | None:
    """Return the status of the running crawl; None if no crawl is running, or its status cannot be read."""
    holder = lock_holder(directory)
    if holder is None:
        return None
    try:
        live = _read(directory / LIVE)
        # A killed process may have left its file behind.
        if live.pop("pid") != holder:
            return None
        return Live(**live)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(path: Path, tries: int = 5) -> Any:
    """Read the file; retry if it is being overwritten on a full disk."""
    while True:
        tries -= 1
        try:
            return json.loads(read_bounded(path, LIVE).decode("ascii"))
        except ValueError:
            if not tries:
                raise
