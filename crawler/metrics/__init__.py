"""What the statistics of a crawl mean to those who watch it: Prometheus text, time series, words.

Everything here is pure and reads one mapping, the one that ``stats --json`` prints. Null there, or a key
that is not there, means that the part does not exist: it yields no sample, never a zero.
"""

from crawler.metrics.history import History
from crawler.metrics.prometheus import CONTENT_TYPE, METRICS, Metric, prometheus_text
from crawler.metrics.words import count, probability, trust

__all__ = [
    "CONTENT_TYPE",
    "METRICS",
    "History",
    "Metric",
    "count",
    "probability",
    "prometheus_text",
    "trust",
]
