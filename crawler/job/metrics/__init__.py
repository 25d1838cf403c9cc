"""Turns the statistics of a crawl into time series, sentences and (in `prometheus`) metrics.

Everything here is pure and reads one mapping, the one that ``stats --json`` prints. If a key is null or missing, that
part of the crawl does not exist: it yields no sample, never a zero.
"""

from crawler.base.figures import count, counted, duration, noun, per_second, probability, share, size
from crawler.job.metrics.attention import Need, needs
from crawler.job.metrics.countdown import Countdown, Look
from crawler.job.metrics.course import Course, CourseError
from crawler.job.metrics.even_counts import EvenCounts
from crawler.job.metrics.events import Event, Events, Kind
from crawler.job.metrics.history import COUNTERS, History
from crawler.job.metrics.sentences import (
    TimeLeft,
    forecast,
    outlook,
    standing,
    suspicion,
    time_left,
    trust,
    waiting,
    working,
)

__all__ = [
    "COUNTERS",
    "Countdown",
    "Course",
    "CourseError",
    "EvenCounts",
    "Event",
    "Events",
    "History",
    "Kind",
    "Look",
    "Need",
    "TimeLeft",
    "count",
    "counted",
    "duration",
    "forecast",
    "needs",
    "noun",
    "outlook",
    "per_second",
    "probability",
    "share",
    "size",
    "standing",
    "suspicion",
    "time_left",
    "trust",
    "waiting",
    "working",
]
