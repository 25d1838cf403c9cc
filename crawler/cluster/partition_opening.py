"""Opens a partition in the directory of a crawl."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.settings.parts import Settings
from crawler.cluster.member_options import Crawl
from crawler.job.crawl_file import check_none_gone, note_begun
from crawler.job.job import Job
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform, new_line


class Opening(Struct):
    """How the partitions of one process are opened. ``settings()`` are those of a run that begins now. ``is_stored``:
    the crawl lives in a store, so that a log of steps is kept, and that what is gone from here comes back."""

    crawl: Crawl
    platform: Platform
    clock: Callable[[], float]
    settings: Callable[[], Settings]
    is_stored: bool

    def open(self, number: int) -> Job:
        """The open job. Raises what ``Job`` does."""
        directory = self.crawl.partition(number)
        anchor = self.clock.anchor if isinstance(self.clock, SteadyClock) else None
        platform = replace(self.platform, line=new_line() if self.is_stored else 0)
        if not self.is_stored:
            check_none_gone(self.crawl.directory)
        router = PartitionRouter(number, self.crawl.placement)
        job = Job(directory, self.settings(), self.clock(), platform, anchor, router)
        try:
            if not self.is_stored:
                note_begun(job.disk, self.crawl.directory, number)
        except BaseException:
            job.close()
            raise
        return job
