"""What the statistics of a crawl mean to people: time series, words, and (in `prometheus`) metrics.

Everything here is pure and reads one mapping, the one that ``stats --json`` prints. Null there, or a key
that is not there, means that the part does not exist: it yields no sample, never a zero.
"""

from crawler.metrics.course import Course, CourseError
from crawler.metrics.events import Event, Events, Kind
from crawler.metrics.history import History
from crawler.metrics.sentences import count, duration, forecast, outlook, per_second, probability, size, trust, working

__all__ = [
    "Course",
    "CourseError",
    "Event",
    "Events",
    "History",
    "Kind",
    "count",
    "duration",
    "forecast",
    "outlook",
    "per_second",
    "probability",
    "size",
    "trust",
    "working",
]
