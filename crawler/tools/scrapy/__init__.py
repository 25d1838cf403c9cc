"""Runs Scrapy on this project's frontier: requests are stored in a job, which ``crawler stats`` and ``verify`` read.

    job_settings   computes the settings of the job from Scrapy's settings
    upkeep         makes the job durable, in a thread
    request_job    the job: it knows the names, positions and bytes of requests, and does not depend on Scrapy
    request_rows   converts a request to bytes and back
    start_requests recognises start requests that an earlier run has queued
    in_progress    detects the end and outcome of a request; before the end, flushes its items to their files
    spider_status  writes the status of a running spider, for ``crawler stats`` and the dashboard
    dupefilter     the seen-set as DUPEFILTER_CLASS
    scheduler      the SCHEDULER class

A request that leaves the scheduler stays in the job. It is done when the engine has removed it from its set of requests
in progress: its callback or errback has returned, all its results are enqueued or have passed the pipelines, or a
request from a downloader middleware has replaced it. The job writes the requests that result from a request before the
end of that request, or in the same transaction. So after a kill, the spider gets every unfinished request again.

Scrapy is an optional dependency: only the modules of this package import it, and ``import
crawler.tools.scrapy`` alone does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawler.tools.scrapy.dupefilter import DupeFilter
    from crawler.tools.scrapy.scheduler import Scheduler

__all__ = ["DupeFilter", "Scheduler"]


def __getattr__(name: str) -> Any:
    if name == "Scheduler":
        from crawler.tools.scrapy.scheduler import Scheduler  # noqa: PLC0415 - imports Scrapy, an optional dependency

        return Scheduler
    if name == "DupeFilter":
        from crawler.tools.scrapy.dupefilter import DupeFilter  # noqa: PLC0415

        return DupeFilter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
