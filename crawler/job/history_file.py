"""The history of a job on disk: its numbers over time and its events, kept across restarts.

The file is only for display. It is written once a minute and when a run ends. A damaged file is reported and replaced,
and a crawl does not stop if the file cannot be written. The format is in docs/internals/format-history.md.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawler.base.disk import RealDisk, write_file
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.metrics.crawl_history import CrawlHistory, CrawlHistoryError

log = logging.getLogger("crawler")

HISTORY = "history.json"
MAGIC = "crawler-history"
VERSION = 1


def read_history(directory: Path, now: float, *, tells: bool = True) -> CrawlHistory:
    """Return the history of the job before ``now`` (seconds since 1970); empty if there is no file. ``tells`` is passed
    to ``CrawlHistory``.

    Raises OSError, and EnvelopeError and CrawlHistoryError if the file is damaged or of another version."""
    history = CrawlHistory(tells=tells)
    path = directory / HISTORY
    try:
        content = read_envelope(path, MAGIC, VERSION, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return history
    history.restore(content, now)
    return history


def course_fault(directory: Path) -> str | None:
    """Describe what is wrong with the file; None if it is intact."""
    try:
        read_history(directory, math.inf)
    except (EnvelopeError, CrawlHistoryError, OSError) as error:
        return f"{HISTORY}: {error}" if isinstance(error, CrawlHistoryError) else str(error)
    return None


def load_history(directory: Path, now: float, *, tells: bool = True) -> CrawlHistory:
    """Like ``read_history``, but if the file is unusable, logs that and returns an empty history."""
    try:
        return read_history(directory, now, tells=tells)
    except (EnvelopeError, CrawlHistoryError, OSError) as error:
        log.warning("%s: the history of earlier runs is not shown: %s", directory / HISTORY, error)
        return CrawlHistory(tells=tells)


def write_course(directory: Path, content: Mapping[str, Any]) -> None:
    """Write the result of ``CrawlHistory.dump``. Raises OSError."""
    part = directory / f"{HISTORY}.part"
    try:
        write_file(RealDisk(), part, encode_envelope(MAGIC, VERSION, dict(content)))
        part.replace(directory / HISTORY)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()  # a partial file would take up space on a full disk
        raise
