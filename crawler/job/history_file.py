"""The course of a job on disk: its numbers over time and what happened, kept across restarts.

It is for people and nothing rests on it: it is written once a minute and when a run ends, a damaged one is named and
begun anew, and no crawl stops because it cannot be written. docs/reference/format-course.md has the format.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawler.checkpoint import EnvelopeError, encode_envelope, read_envelope
from crawler.disk import FULL, RealDisk, write_file
from crawler.metrics import Course, CourseError

log = logging.getLogger("crawler")

COURSE = "course.json"
MAGIC = "crawler-course"
VERSION = 1


def read_course(directory: Path, now: float, *, tells: bool = True) -> Course:
    """What was seen of the job before ``now`` (seconds since 1970); an empty course where nothing was. ``tells`` is as
    ``Course`` has it.

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
    """What is wrong with the file; None when nothing is. Raises OSError."""
    try:
        read_course(directory, math.inf)
    except (EnvelopeError, CourseError) as error:
        return f"{COURSE}: {error}" if isinstance(error, CourseError) else str(error)
    return None


def load_course(directory: Path, now: float, *, tells: bool = True) -> Course:
    """As ``read_course``; a file that cannot be used is named, and what it said is gone."""
    try:
        return read_course(directory, now, tells=tells)
    except (EnvelopeError, CourseError) as error:
        log.warning("%s: what was seen of earlier runs is not shown: %s", directory / COURSE, error)
        return Course(tells=tells)


def write_course(directory: Path, content: Mapping[str, Any]) -> None:
    """``content`` is what ``Course.dump`` gave. A full disk is no error; raises OSError for any other trouble."""
    part = directory / f"{COURSE}.part"
    try:
        write_file(RealDisk(), part, encode_envelope(MAGIC, VERSION, dict(content)))
        part.replace(directory / COURSE)
    except OSError as error:
        if error.errno not in FULL:
            raise
