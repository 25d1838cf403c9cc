"""What a run says when it resumes a job: what it resumes, how many seeds are new, and what keeps it from continuing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

from crawler.base.figures import count, counted
from crawler.base.kv import Family
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.host import host_name, pages_of
from crawler.frontier.host_status import ScriptedHosts
from crawler.inspect.beginning import began_at
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.markdown_files import DIRECTORY as MARKDOWN
from crawler.job.run_settings import read_run

Say = Callable[[str], None]

_HOSTS_MOST = 100_000  # that are looked at, while the run waits


class Resumed:
    """A job as a run found it. Create it before the run begins, and before its settings are stored."""

    def __init__(self, job: Job, settings: Settings, now: float) -> None:
        """``now`` is in seconds since 1970."""
        self._job = job
        self._most = settings.crawl.max_pages
        self._endless = settings.recrawl.enabled
        self._sites = Sites(settings)
        self._now = now
        self._done, self._pages = job.counters.pages_fetched, job.counters.pages
        self._seeds = job.counters.seeds
        kept = [name for name in settings.output.keep if name != "wacz"]  # which is made of warc
        had = {name for name in kept if job.files.outputs.had(name)}
        # Its rows stand in those of text, and its files are made when a run ends.
        if (job.directory / MARKDOWN).is_dir() or MARKDOWN in read_run(job.directory).settings.output.keep:
            had.add(MARKDOWN)
        self._without = [name for name in kept if name not in had]

    async def tell_behind(self, seeds: AsyncIterator[list[str]], say: Say) -> AsyncIterator[list[str]]:
        """Pass the seeds on, and speak when the last of them have been admitted."""
        async for batch in seeds:
            yield batch
        new = self._job.counters.seeds - self._seeds
        self.tell(say, f"; seeds: {count(new)} new")
        if not self._is_full() and self._has_ended():
            left, permit = (" but those held back", "permit these, ") if self._job.counters.urls_held_back else ("", "")
            say(
                f"no URLs are left{left}: the crawl had ended; {permit}add seeds, or name another directory with --job "
                "to begin a new one"
            )
            if (worst := self._to_render()) is not None:
                say(
                    f"what was fetched without a browser stays as it is: `crawler retry {self._job.directory} --host "
                    f"{worst}`, then the same command, renders it (`crawler hosts {self._job.directory} --sort "
                    "needs_scripts` lists such hosts)"
                )

    def _to_render(self) -> str | None:
        """The host that needs a browser most, of those that may have one now; None if any page had one before."""
        counters, hosts = self._job.counters, ScriptedHosts()
        if not self._sites.rendered or counters.pages_rendered:
            return None
        for key, value in self._job.store.scan(Family.HOSTS, b"", None, _HOSTS_MOST):
            name = host_name(key)
            if self._sites.of_host(name).browser.when != "never":
                hosts.add(name, *pages_of(value))
        return hosts.named[0]["host"] if hosts.count else None

    def tell(self, say: Say, seeds: str = "") -> None:
        """Say what is resumed, followed by the text ``seeds``, and whether its limit was reached before."""
        directory = self._job.directory
        begun = _moment(began_at(directory, self._now), self._now)
        say(f"resuming {directory}: begun {begun}, {counted(self._pages, 'page')} done{seeds}")
        if self._without and self._done:
            say(
                f"--output {','.join(self._without)} begins now: it will have nothing of the "
                f"{counted(self._pages, 'page')} done before; `crawler retry {directory} --host HOST` has those of a "
                "host fetched again"
            )
        if self._is_full():
            most = counted(self._most, "page")
            say(f"the limit of {most} (--max-pages) was reached before this run began: raise it to fetch more")

    def _is_full(self) -> bool:
        return self._most is not None and self._done >= self._most

    def _has_ended(self) -> bool:
        job = self._job
        waits = job.counters.pending or job.doubted or Inbox(job.directory, job.disk).waiting()
        return not self._endless and not waits and not job.left_out.left


def _moment(moment: float, now: float) -> str:
    """Local time, with the date if it was not today."""
    then, today = time.localtime(moment), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)
