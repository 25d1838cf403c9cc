"""What a dashboard knows of the records of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawler.inspect.survey_reader import SurveyReader
from crawler.service.job_seeds import JobSeeds
from crawler.service.record_counter import Reader, RecordCounter
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
        return cls.of_reader(directory, SurveyReader(directory, end), share)

    @classmethod
    def of_reader(cls, directory: Path, reader: Reader, share: float = 1.0) -> JobSurvey:
        """The survey of a job or a crawl by what counts its records."""
        counter = RecordCounter(directory, reader, share)
        return cls(counter, SurveyAnswer(counter), RecordNews(counter), JobSeeds(counter))
