"""Writes ``live.json`` of a job while its spider runs, for ``crawler stats``, ``top`` and ``dashboard``.

Values that only this project's own engine can measure are null.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

from crawler.base.disk import Expendable
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.lease import Lease
from crawler.inspect.host_states import HostStates
from crawler.inspect.statistics import HostFigures, JobFigures, RunFigures, assemble
from crawler.job.directory import LIVE
from crawler.job.job import Job
from crawler.job.live_status import Live, write_live
from crawler.job.metrics.outlook import Look, Observed, SeenAhead
from crawler.url.urls.request_name import without_name

INTERVAL = 1.0  # seconds
PAUSE = 50.0  # pause after a count of all hosts, as a multiple of its duration


class SpiderStatus:
    """Writes the status of a running spider's job. A failure to write the status is harmless."""

    def __init__(self, job: Job, settings: Settings, clock: Callable[[], float]) -> None:
        self._job = job
        self._clock = clock
        self._began = clock()
        self._next = self._next_count = self._began
        self._states = HostStates(job.store, job.frontier, Sites(settings), clock)
        self._observed = Observed()
        self._file = Expendable(str(job.directory / LIVE))
        self.out: dict[Lease, str] = {}  # URLs of the requests that are handed out

    def show(self, now: float) -> None:
        """Write the status if an update is due."""
        if now < self._next:
            return
        self._next = now + INTERVAL
        with self._file:
            under_way = {url: lease.taken_at for lease, url in self.out.items()}
            write_live(self._job.directory, Live(self._stats(now), under_way, self._job.promises.end, None, ()))

    def _stats(self, now: float) -> dict[str, Any]:
        job, frontier = self._job, self._job.frontier
        self._count_hosts(now)
        figures = JobFigures(
            job.counters,
            job.seen.statistics(),
            job.checkpointer.manifest,
            None,
            len(job.checkpointer.generations.numbers()),
            shutil.disk_usage(job.directory).free,
            job.files.outputs.sizes(),
        )
        hosts = HostFigures(frontier.hosts_pending, frontier.hosts_without_page, self._states.found)
        counters = job.counters
        self._observed.look(Look(now, counters.pending, counters.done, counters.pages_fetched))
        shown = {
            "elapsed_seconds": now - self._began,
            "pages_per_second": self._observed.pages_per_second,
            "commits": job.writer.commits,
        }
        run = RunFigures(shown, counters.pending - frontier.queued, None)
        return assemble(figures, hosts, run, state="running", now=now, ahead=SeenAhead())

    def _count_hosts(self, now: float) -> None:
        """Count the hosts by state. The more hosts there are, the less often they are counted, so that counting takes a
        bounded share of the time."""
        if now >= self._next_count:
            began = time.perf_counter()
            self._states.settle()
            self._next_count = now + PAUSE * (time.perf_counter() - began)

    def taken(self, lease: Lease) -> None:
        """Record that a request is handed out."""
        if lease.entry is not None:
            self.out[lease] = without_name(lease.entry.href)

    def ended(self, lease: Lease) -> None:
        """Record that a request is done."""
        self.out.pop(lease, None)

    def take_away(self) -> None:
        """Remove the status, because the spider has ended and the stored data is complete."""
        with contextlib.suppress(OSError):
            os.unlink(self._job.directory / LIVE)
