"""What a dashboard knows of the records of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawler.service.job_seeds import JobSeeds
from crawler.service.record_counter import RecordCounter
from crawler.service.record_news import RecordNews
from crawler.service.survey_answer import SurveyAnswer


class JobSurvey(Struct, frozen=True):
    """A counter, and what is made of its counts."""

    counter: RecordCounter
    answer: SurveyAnswer
    news: RecordNews
    seeds: JobSeeds

    @classmethod
    def of(cls, directory: Path, end: Callable[[], int | None], share: float = 1.0) -> JobSurvey:
        """The survey of the job in a directory; ``end`` and ``share`` as in `RecordCounter`."""
        counter = RecordCounter(directory, end, share)
        return cls(counter, SurveyAnswer(counter), RecordNews(counter), JobSeeds(counter))
