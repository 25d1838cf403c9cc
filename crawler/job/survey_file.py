"""What a crawl counted of its records, on disk, so that a resumed crawl does not count them again.

The file is only for display. A crawl writes it while it serves a dashboard, once a minute and when a run ends. A
damaged file is reported, and the records are counted from the first one. The format is in
docs/reference/format-survey.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from crawler.base.disk import RealDisk, replace_file
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.output.changes import Cursor, CursorError
from crawler.job.survey.survey import Survey

SURVEY = "survey.json"
MAGIC = "crawler-survey"
VERSION = 4


class Counted(NamedTuple):
    """A survey of the records up to a cursor."""

    survey: Survey
    cursor: Cursor


def read_survey(directory: Path) -> Counted | None:
    """What the file holds; None if there is none. Raises EnvelopeError when it is damaged or of another version,
    OSError."""
    path = directory / SURVEY
    try:
        content = read_envelope(path, MAGIC, VERSION, str(path))
        return Counted(msgspec.convert(content["survey"], Survey), Cursor.parse(str(content["cursor"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (KeyError, CursorError, msgspec.ValidationError) as error:
        raise EnvelopeError(f"{path}: not a survey: {error}") from error


def write_survey(directory: Path, counted: Counted) -> None:
    """Replace the file. Raises OSError."""
    content = {"cursor": str(counted.cursor), "survey": msgspec.to_builtins(counted.survey)}
    replace_file(RealDisk(), directory / SURVEY, encode_envelope(MAGIC, VERSION, content))
