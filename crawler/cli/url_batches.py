"""Leaves URLs in the inbox of a job, running or not, and waits for results (``crawler add``, ``crawler retry``)."""

from __future__ import annotations

import argparse
import asyncio
import errno
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, RealDisk, no_room
from crawler.base.figures import counted
from crawler.base.say import say
from crawler.base.settings.parts import CLASSES
from crawler.cli.damaged_job import say_defaults
from crawler.cli.exit_codes import Exit, FailedError
from crawler.cli.interruptible import run_interruptible
from crawler.engine.injector import Injector
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.reading import Reading
from crawler.inspect.crawl_partitions import CrawlPartitions, Partition, crawl_partitions
from crawler.job.directory import BUCKET, JobError
from crawler.job.identity import check_fetcher, read_identity
from crawler.job.inbox import Answer, Inbox
from crawler.job.job import Job
from crawler.job.job_lock import lock_holder
from crawler.job.run_settings import read_run
from crawler.job.stored_errors import DAMAGE, DamagedPartitionError

WAIT = 30.0  # seconds to wait for an answer
_POLL = 0.05  # seconds between two checks for the answer


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the job, which must come first."""
    parser.add_argument("job", type=Path, metavar="DIR")


def add_no_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-wait", action="store_true", help="leave them in the inbox without waiting for the result")


def add_class(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add the priority class, as an argument or a flag."""
    parser.add_argument(name, type=int, choices=range(CLASSES), metavar="CLASS", help=text)


def deliver(
    arguments: argparse.Namespace,
    work: Callable[[argparse.Namespace, CrawlPartitions], Awaitable[int]],
) -> int:
    """Call ``work`` with the job, or with the partitions of a crawl. Returns its exit code. Raises UsageError,
    FailedError."""
    directory: Path = arguments.job

    async def do() -> int:
        crawl = crawl_partitions(directory)
        if crawl.is_job:
            check_fetcher(directory)
        say_defaults(directory)
        return await work(arguments, crawl)

    try:
        return run_interruptible(do)
    except DamagedPartitionError as error:
        raise FailedError(f"error: {error}: `crawler repair` of that partition repairs it") from error
    except DAMAGE as error:
        raise FailedError(f"error: {directory}: {error}: `crawler repair {directory}` repairs it") from error


class UrlBatches:
    """The files of URLs that one command leaves in an inbox."""

    def __init__(self, arguments: argparse.Namespace, partition: Partition) -> None:
        """``partition``: the partition that gets the URLs. Raises JobError, SettingsError."""
        self._directory = partition.directory
        self._of_crawl = partition.of_crawl
        self._label = f"partition {partition.number:02}: " if partition.of_crawl else ""
        self.waits: bool = not arguments.no_wait
        self._settings = read_run(partition.directory).settings
        self._inbox = Inbox(self._directory, RealDisk())
        self._unanswered: dict[str, int] = {}  # name of the file -> number of URLs in it
        self._answer = Answer()
        self._left = 0
        self.stored = 0
        self._full: str | None = None  # why the URLs stay in the inbox

    @property
    def _for_next_run(self) -> bool:
        """True if no process owns the partition, so the URLs wait for the next run. Raises JobError, OSError."""
        is_free = self._full is None and lock_holder(self._directory) is None
        return is_free and (self._of_crawl or self._is_for_a_run)

    @property
    def _is_for_a_run(self) -> bool:
        """True if only a run may admit the URLs, because a worker may be about to open the partition, or because the
        crawl's bucket must be informed. Raises JobError, OSError."""
        return (self._directory / BUCKET).exists() or read_identity(self._directory).partition is not None

    @property
    def unanswered(self) -> int:
        """The number of files without an answer."""
        return len(self._unanswered)

    def leave(self, count: int, deposit: Callable[[Inbox], str]) -> None:
        """Leave a file of ``count`` URLs in the inbox. Raises FailedError."""
        try:
            name = deposit(self._inbox)
        except OSError as error:
            before = f"the first {self.stored} were added, the others" if self.stored else "they"
            raise FailedError(
                f"error: the URLs cannot be stored in {self._inbox.path}: {error.strerror or error}: {before} were "
                "not added: run the same command again once this is fixed"
            ) from error
        self.stored += count
        if self.waits:
            self._unanswered[name] = count
        self._left += count

    async def wait_until(self, most: int) -> None:
        """Wait until at most ``most`` files are unanswered, for up to ``WAIT`` seconds. Raises JobError, OSError."""
        deadline = time.monotonic() + WAIT
        while len(self._unanswered) > most and time.monotonic() < deadline and self._full is None:
            for name in list(self._unanswered):
                answer = self._inbox.answer(name)
                if answer is not None:
                    self._answer += answer
                    self._left -= self._unanswered.pop(name)
            if len(self._unanswered) <= most:
                return
            if lock_holder(self._directory) is None:
                if self._is_for_a_run:
                    return
                await self._admit_inbox()
            else:
                await asyncio.sleep(_POLL)

    async def _admit_inbox(self) -> None:
        """Admit the URLs in the inbox, because no crawl is running. If the disk is full, the URLs stay in the inbox.
        Raises JobError, OSError."""
        try:
            await self._admit(SteadyClock())
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._full = no_room(error)

    async def _admit(self, clock: SteadyClock) -> None:
        try:
            job = Job(self._directory, self._settings, clock(), anchor=clock.anchor)
        except JobError:
            if lock_holder(self._directory) is not None:
                return  # a crawl has started since and will answer
            raise
        try:
            injector = Injector(job, Discovery(job, self._settings, Reading()), self._inbox, lambda: None)
            draining = asyncio.create_task(injector.drain(clock()))
            while not draining.done() and job.blocked is None:
                await asyncio.wait({draining}, timeout=_POLL)
            if job.blocked is not None:
                # The task waits until the disk has free space, but only a run checks for free space.
                draining.cancel()
                await asyncio.wait({draining})
                raise OSError(errno.ENOSPC, job.blocked)
            await draining
            await job.checkpoint(clock())
        finally:
            job.close()

    async def report(self, words: Callable[[Answer], str]) -> int:
        """Wait for the answers, and print their sum as ``words(answer)``. Raises JobError, OSError."""
        if self.waits:
            await self.wait_until(0)
        elif lock_holder(self._directory) is None:
            say(sys.stderr, f"crawler: no crawl is running: {counted(self._left, 'URL')} left in {self._inbox.path}")
        answer = self._answer
        for url, reason in answer.rejected:
            say(sys.stderr, f"skipped: {url}: {reason}")
        if answer.credentials_dropped:
            named = f"{counted(answer.credentials_dropped, 'URL')} with credentials"
            say(
                sys.stderr, f"crawler: warning: {named}, which are not sent: put the credentials into the configuration"
            )
        if self.waits:
            # The next run decides which of the waiting URLs are in scope and new.
            waits = self._left == self.stored > 0 and self._for_next_run
            print(f"{self._label}{f'{self._left} left in the inbox' if waits else words(answer)}")
            if self._left:
                why, then = "no answer from the crawl yet", ""
                if self._full is not None:
                    why = f"the URLs cannot be admitted now: {self._full}"
                    then = "; the next run, or the next `crawler add`, admits them"
                elif self._for_next_run:
                    what = "partition" if self._of_crawl else "crawl"
                    why, then = f"no process runs this {what}", "; the next run admits those in scope and new"
                left = f"{counted(self._left, 'URL')} left in {self._inbox.path}"
                say(sys.stderr, f"crawler: {why}: {left}{then}")
        else:
            print(f"{self._label}{self._left} left in the inbox")
        return Exit.OK
