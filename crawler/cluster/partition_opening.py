"""Opens a partition in the directory of a crawl."""

from __future__ import annotations

from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.settings.parts import Settings
from crawler.cluster.member_options import Crawl, MemberOptions
from crawler.job.crawl_file import check_none_gone, note_begun
from crawler.job.job import Job
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import new_line


def open_job(number: int, crawl: Crawl, settings: Settings, options: MemberOptions) -> Job:
    """Open the job of a partition. Raises the same errors as ``Job``."""
    is_stored = options.stored is not None  # missing files are restored from the store
    if not is_stored:
        check_none_gone(crawl.directory)
    clock = options.clock
    anchor = clock.anchor if isinstance(clock, SteadyClock) else None
    platform = replace(options.platform, line=new_line() if is_stored else 0)
    router = PartitionRouter(number, crawl.placement)
    job = Job(crawl.partition(number), settings, clock(), platform, anchor, router)
    try:
        if not is_stored:
            note_begun(job.disk, crawl.directory, number)
    except BaseException:
        job.close()
        raise
    return job
