"""Prints the messages of a run that resumes a job: the state of the job, the number of new seeds, and why the crawl
cannot continue."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

from crawler.base.figures import count, counted
from crawler.base.settings.parts import Settings
from crawler.inspect.job_reader import began_at
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.markdown_files import DIRECTORY as MARKDOWN
from crawler.job.run_settings import read_run

Say = Callable[[str], None]


class Resumed:
    """The state of a job before a run. Create it before the run starts and before its settings are stored."""

    def __init__(self, job: Job, settings: Settings, now: float) -> None:
        """``now`` is in seconds since 1970."""
        self._job = job
        self._most = settings.crawl.max_pages
        self._endless = settings.recrawl.enabled
        self._now = now
        self._done, self._pages = job.counters.pages_fetched, job.counters.pages
        self._seeds = job.counters.seeds
        kept = [name for name in settings.output.keep if name != "wacz"]  # the output that is built from warc
        had = {name for name in kept if job.files.outputs.had(name)}
        # Markdown has no output of its own: it uses the records of text, and its files are made at the end of a run.
        if (job.directory / MARKDOWN).is_dir() or MARKDOWN in read_run(job.directory).settings.output.keep:
            had.add(MARKDOWN)
        self._without = [name for name in kept if name not in had]

    async def tell_behind(self, seeds: AsyncIterator[list[str]], say: Say) -> AsyncIterator[list[str]]:
        """Pass on the seeds, and print the messages once the last seeds have been admitted."""
        async for batch in seeds:
            yield batch
        new = self._job.counters.seeds - self._seeds
        self.tell(say, f"; seeds: {count(new)} new")
        if not self._is_full() and self._has_ended():
            left, permit = (" but those held back", "permit these, ") if self._job.counters.urls_held_back else ("", "")
            say(
                f"no URLs are left{left}: the crawl had ended; {permit}add seeds, or start a new one in another "
                "directory"
            )

    def tell(self, say: Say, seeds: str = "") -> None:
        """Print which job is resumed, followed by ``seeds``, and whether its page limit had been reached before."""
        directory = self._job.directory
        begun = _moment(began_at(directory, self._now), self._now)
        say(f"resuming {directory}: started {begun}, {counted(self._pages, 'page')} done{seeds}")
        if self._without and self._done:
            say(
                f"--output {','.join(self._without)} starts now, and lacks the {counted(self._pages, 'page')} done "
                f"before; `crawler retry {directory} --host HOST` fetches the pages of a host again"
            )
        if self._is_full():
            most = counted(self._most, "page")
            say(f"the limit of {most} (--max-pages) was reached before this run started: raise it to fetch more")

    def _is_full(self) -> bool:
        return self._most is not None and self._done >= self._most

    def _has_ended(self) -> bool:
        job = self._job
        waits = job.counters.pending or job.doubted or Inbox(job.directory, job.disk).waiting()
        return not self._endless and not waits and not job.left_out.left


def _moment(moment: float, now: float) -> str:
    """Return the local time, with the date if it is not today."""
    then, today = time.localtime(moment), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)
