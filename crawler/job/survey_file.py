"""What a crawl counted of its records, on disk, so that a resumed crawl does not count them again.

The file is only for display. A crawl writes it while it serves a dashboard, once a minute and when a run ends. A
damaged file is reported, and the records are counted from the first one. The format is in
docs/reference/format-survey.md.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

from crawler.base.disk import RealDisk, write_file
from crawler.job.checkpoint import EnvelopeError, encode_envelope, read_envelope
from crawler.job.output.changes import Cursor, CursorError
from crawler.job.survey import Survey, SurveyError

SURVEY = "survey.json"
MAGIC = "crawler-survey"
VERSION = 2  # 1 counted visits where 2 counts URLs


class Counted(NamedTuple):
    """A survey of the records up to a cursor."""

    survey: Survey
    cursor: Cursor


def read_survey(directory: Path) -> Counted | None:
    """What the file holds; None if there is none. Raises EnvelopeError and SurveyError when it is damaged or of another
    version, OSError."""
    path = directory / SURVEY
    try:
        content = read_envelope(path, MAGIC, VERSION, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return Counted(Survey.restored(content["survey"]), Cursor.parse(str(content["cursor"])))
    except (KeyError, CursorError) as error:
        raise SurveyError(f"no cursor: {error}") from error


def survey_fault(directory: Path) -> str | None:
    """What is wrong with the file; None if it is whole."""
    try:
        read_survey(directory)
    except (EnvelopeError, SurveyError, OSError) as error:
        return f"{SURVEY}: {error}" if isinstance(error, SurveyError) else str(error)
    return None


def encode_survey(counted: Counted) -> bytes:
    """The bytes of the file."""
    content: dict[str, Any] = {"cursor": str(counted.cursor), "survey": counted.survey.dump()}
    return encode_envelope(MAGIC, VERSION, content)


def write_survey(directory: Path, data: bytes) -> None:
    """Replace the file by what ``encode_survey`` returned. Raises OSError."""
    part = directory / f"{SURVEY}.part"
    try:
        write_file(RealDisk(), part, data)
        part.replace(directory / SURVEY)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()  # half of it takes room on a full disk
        raise
