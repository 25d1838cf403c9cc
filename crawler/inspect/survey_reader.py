"""Counts the records of a job as they become final, for its dashboard, and goes on where an earlier run stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from crawler.job.checkpoint import EnvelopeError
from crawler.job.directory import PAGES
from crawler.job.output import lines_of, record_of
from crawler.job.output.changes import BEGINNING, Cursor, CursorError
from crawler.job.output.record_text import path_at
from crawler.job.output.reverse_reader import line_before
from crawler.job.records import JournalError
from crawler.job.survey import Survey, SurveyError
from crawler.job.survey_file import SURVEY, Counted, read_survey

log = logging.getLogger("crawler")

FinalRecords = list[tuple[Path, int]]  # files of records, and how far they are final
PIECE = 64 * 1024  # bytes of records that are counted in one step: some milliseconds


class SurveyReader:
    """``survey`` counts the records before ``cursor``; ``end`` is how far they are final, None if that is not known
    yet. Belongs to one thread."""

    def __init__(self, directory: Path, end: Callable[[], int | None], shared: Survey | None = None) -> None:
        """``shared`` counts the records of other jobs too; what is stored of this one alone is then of no use. If the
        records of this one are replaced, it is left for another."""
        self.survey = shared or Survey()
        self.cursor = BEGINNING
        self.end: int | None = None
        self._path = directory / PAGES
        self.ask_end = end
        self._file: tuple[int, int] | None = None
        self._loaded = shared is not None

    @property
    def counted(self) -> Counted:
        """What there is to store."""
        return Counted(self.survey, self.cursor)

    @property
    def is_known(self) -> bool:
        """Whether it is known how far records are final."""
        return self.end is not None

    @property
    def part(self) -> float:
        """How much of the final records was counted, 0 to 1."""
        return 0.0 if self.end is None else min(1.0, self.cursor.end / self.end) if self.end else 1.0

    def final(self) -> FinalRecords | None:
        """Which records are final now; None if that is not known yet. Raises what asking for the end raises."""
        end = self.ask_end()
        return None if end is None else [(self._path, end)]

    @property
    def is_complete(self) -> bool:
        """Whether all records that are final were counted, at the last step."""
        return self.end is not None and self.cursor.end >= self.end

    def step(self) -> None:
        """Count some more records. Raises JournalError, OSError, and what asking for the end raises."""
        self.end = self.ask_end()
        if self.end is None:
            return
        if not self._loaded:
            self._loaded = True
            self._load(self.end)
        self._look_for_another_file(self.end)
        at = self.cursor.end
        if at >= self.end:
            return
        until, line = min(self.end, at + PIECE), b""
        for offset, line in lines_of(self._path, until, at):
            record = record_of(line)
            if record is None or offset + len(line) > self.end:
                raise JournalError(
                    f"{path_at(self._path, offset).name}: offset {offset}: not a record; run `crawler verify`"
                )
            self.survey.add(record)
            at = offset + len(line)
        if not line:
            raise JournalError(f"{PAGES}: offset {at}: records up to {self.end} are missing; run `crawler verify`")
        self.cursor = Cursor.after(line, at)

    def _load(self, end: int) -> None:
        """Go on from what an earlier run stored, if that is of these records."""
        path = self._path.with_name(SURVEY)
        try:
            stored = read_survey(path.parent)
            if stored is not None:
                stored.cursor.check(end, partial(line_before, self._path))
                self.survey, self.cursor = stored
        except (EnvelopeError, SurveyError, CursorError, OSError) as error:
            log.warning("%s: the records are counted again for the dashboard: %s", path, error)

    def _look_for_another_file(self, end: int) -> None:
        """Begin again if a repair or a restored backup replaced the records."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return
        file = (found.st_dev, found.st_ino)
        if self.cursor.end > end or (self._file is not None and self._file != file):
            self.survey, self.cursor = Survey(), BEGINNING
        self._file = file
