"""Scrapy on this project's frontier: its requests live in a job, which ``crawler stats`` and ``verify`` read.

    job_settings   the settings of such a job, from those of Scrapy
    upkeep         makes it durable, in a thread
    request_job    the job: requests of which it knows the name, the place and the bytes; nothing here needs Scrapy
    request_rows   a request as bytes, and back
    start_requests which start requests an earlier run has queued already
    in_progress    when a request is done, and what came of it
    spider_status  what ``crawler stats`` and the dashboard show while the spider runs
    item_feeds     items are in their files before their request is done
    dupefilter     the seen-set as DUPEFILTER_CLASS
    scheduler      the contract: SCHEDULER

A request leaves the scheduler, but not the job. It is done when the engine has dropped it from its set of requests in
progress: its callback or errback has returned, all that came out of it is enqueued or has passed the pipelines, or a
request of the downloader middlewares has taken its place. Requests that come out of it and its end are written in one
transaction, or the requests first. So a spider that is killed has every request again that was not done.

Scrapy is an extra: nothing in the project but the modules of this package imports it, and ``import
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
        from crawler.tools.scrapy.scheduler import Scheduler  # noqa: PLC0415 - it imports Scrapy, an extra

        return Scheduler
    if name == "DupeFilter":
        from crawler.tools.scrapy.dupefilter import DupeFilter  # noqa: PLC0415

        return DupeFilter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
