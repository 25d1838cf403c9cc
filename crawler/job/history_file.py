"""The history of a job on disk: its numbers over time and its events, kept across restarts.

The file is only for display. It is written once a minute and when a run ends. A damaged file is reported and replaced,
and a crawl does not stop if the file cannot be written. The format is in docs/reference/format-course.md.
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
from crawler.job.metrics.course import Course, CourseError

log = logging.getLogger("crawler")

COURSE = "course.json"
MAGIC = "crawler-course"
VERSION = 1


def read_course(directory: Path, now: float, *, tells: bool = True) -> Course:
    """The history of the job before ``now`` (seconds since 1970); empty if there is no file. ``tells`` is passed to
    ``Course``.

    Raises EnvelopeError and CourseError when the file is damaged or of another version, OSError."""
    course = Course(tells=tells)
    path = directory / COURSE
    try:
        content = read_envelope(path, MAGIC, VERSION, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return course
    course.restore(content, now)
    return course


def course_fault(directory: Path) -> str | None:
    """What is wrong with the file; None if it is whole."""
    try:
        read_course(directory, math.inf)
    except (EnvelopeError, CourseError, OSError) as error:
        return f"{COURSE}: {error}" if isinstance(error, CourseError) else str(error)
    return None


def load_course(directory: Path, now: float, *, tells: bool = True) -> Course:
    """``read_course``, but a file that cannot be used is logged, and an empty history takes its place."""
    try:
        return read_course(directory, now, tells=tells)
    except (EnvelopeError, CourseError, OSError) as error:
        log.warning("%s: the history of earlier runs is not shown: %s", directory / COURSE, error)
        return Course(tells=tells)


def write_course(directory: Path, content: Mapping[str, Any]) -> None:
    """Write the result of ``Course.dump``. Raises OSError."""
    part = directory / f"{COURSE}.part"
    try:
        write_file(RealDisk(), part, encode_envelope(MAGIC, VERSION, dict(content)))
        part.replace(directory / COURSE)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()  # half of it takes room on a full disk
        raise
