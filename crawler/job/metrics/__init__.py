"""Turns the statistics of a crawl into time series, sentences and (in `prometheus`) metrics.

Everything here is pure and reads one mapping, the one that ``stats --json`` prints. If a key is null or missing, that
part of the crawl does not exist: it yields no sample, never a zero.
"""

from crawler.base.figures import count, counted, duration, noun, per_second, probability, share, size
from crawler.job.metrics.attention import Need, needs
from crawler.job.metrics.course import Course, CourseError
from crawler.job.metrics.even_counts import EvenCounts
from crawler.job.metrics.events import Event, Events, Kind
from crawler.job.metrics.history import COUNTERS, History
from crawler.job.metrics.outlook import (
    Look,
    Observed,
    Pace,
    SeenAhead,
    SeenAtEnd,
    SeenWarning,
    TimeLeft,
    next_look,
    paragraph,
    seen_at_end,
    seen_warning,
    seen_words,
    time_left,
)
from crawler.job.metrics.sentences import standing, suspicion, trust, waiting, working

__all__ = [
    "COUNTERS",
    "Course",
    "CourseError",
    "EvenCounts",
    "Event",
    "Events",
    "History",
    "Kind",
    "Look",
    "Need",
    "Observed",
    "Pace",
    "SeenAhead",
    "SeenAtEnd",
    "SeenWarning",
    "TimeLeft",
    "count",
    "counted",
    "duration",
    "needs",
    "next_look",
    "noun",
    "paragraph",
    "per_second",
    "probability",
    "seen_at_end",
    "seen_warning",
    "seen_words",
    "share",
    "size",
    "standing",
    "suspicion",
    "time_left",
    "trust",
    "waiting",
    "working",
]
