"""Start time of a job."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path

from crawler.job.directory import IDENTITY, PAGES
from crawler.job.output import lines_of, record_of


def began_at(directory: Path, now: float) -> float:
    """Return when the job started, in seconds since 1970: the modification time of ``job.json``, or the time of the
    first record if that is earlier, as a repair may have rewritten ``job.json``. Raises OSError."""
    moment = min(now, (directory / IDENTITY).stat().st_mtime)
    for _, line in lines_of(directory / PAGES, 1):
        finished = (record_of(line) or {}).get("fetched_at")
        with contextlib.suppress(ValueError):
            moment = min(moment, datetime.datetime.fromisoformat(str(finished)).timestamp())
    return moment
