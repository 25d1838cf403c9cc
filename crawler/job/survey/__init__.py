"""What the records of a crawl tell, counted one by one in bounded memory."""

from crawler.job.survey.record_kinds import clipped, is_broken, is_unfetched, time_of
from crawler.job.survey.survey import BROKEN_KINDS, COLUMNS, DEEPEST, LONGEST, Row, Survey
from crawler.job.survey.top_rows import TopRows

__all__ = [
    "BROKEN_KINDS",
    "COLUMNS",
    "DEEPEST",
    "LONGEST",
    "Row",
    "Survey",
    "TopRows",
    "clipped",
    "is_broken",
    "is_unfetched",
    "time_of",
]
