"""``crawler add``: adds URLs to a job, running or not."""

from __future__ import annotations

import argparse
import asyncio
import errno
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from crawler.cli.exit_codes import Exit, UsageError
from crawler.clock import SteadyClock
from crawler.disk import FULL, RealDisk, no_room
from crawler.engine.discover import Discovery
from crawler.engine.injector import Injector
from crawler.engine.reading import Reading
from crawler.engine.seeds import STDIN, SeedsError, stream_batches
from crawler.job.directory import JobError
from crawler.job.inbox import MOST_URLS, Answer, Inbox
from crawler.job.job import Job
from crawler.job.job_lock import lock_holder
from crawler.job.run_settings import read_run
from crawler.job.stored_errors import DAMAGE
from crawler.metrics import counted
from crawler.progress.say import say
from crawler.settings import CLASSES, Settings, SettingsError
from crawler.urls import Canonicaliser, Rejected

WAIT = 30.0  # seconds to wait for an answer
_POLL = 0.05  # seconds between two looks for the answer
_PATIENCE = 1.0  # seconds to gather lines of standard input
_UNANSWERED = 8  # files in the inbox at which reading standard input pauses


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Admit URLs that are in scope and new, at depth 0. They are on disk when the command ends. A "
        "running crawl admits them within a second and reports how many were new."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("urls", nargs="+", metavar="URL", help="URLs, or - for standard input, one per line")
    parser.add_argument("--seed", action="store_true", help="extend the scope with them, as seeds do")
    parser.add_argument(
        "--priority",
        type=int,
        choices=range(CLASSES),
        metavar="CLASS",
        help=f"their priority class, from 0, which goes first, to {CLASSES - 1}; it overrides the [[priority]] rules",
    )
    parser.add_argument("--no-wait", action="store_true", help="leave them in the inbox without waiting for the result")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    try:
        settings = read_run(directory).settings
        if "-" in arguments.urls:
            if len(arguments.urls) > 1:
                raise UsageError("give URLs, or - for standard input, not both")
            return asyncio.run(Adding(arguments, settings, seed=arguments.seed).stream())
        canonicaliser = Canonicaliser(settings.canonical.rules)
        for text in arguments.urls:
            url = canonicaliser.canonicalise(text)
            if isinstance(url, Rejected):
                raise UsageError(f"{text!r}: {url.reason}")
        return asyncio.run(Adding(arguments, settings, seed=arguments.seed).all(arguments.urls))
    except (JobError, SettingsError, SeedsError) as error:
        raise UsageError(str(error)) from error
    except NotStoredError as error:
        say(sys.stderr, f"crawler: error: {error}")
        return Exit.FAILED
    except DAMAGE as error:
        say(sys.stderr, f"crawler: error: {directory}: {error}: `crawler repair {directory}` repairs it")
        return Exit.FAILED


class NotStoredError(Exception):
    """URLs could not be left in the inbox; the text is one line for the user."""


class Adding:
    """One call of the command."""

    def __init__(self, arguments: argparse.Namespace, settings: Settings, *, seed: bool) -> None:
        """``seed``: the URLs widen the scope."""
        self._directory: Path = arguments.job
        self._seed = seed
        self._priority: int | None = getattr(arguments, "priority", None)  # `crawler retry` has none
        self.waits: bool = not arguments.no_wait
        self._settings = settings
        self._inbox = Inbox(self._directory, RealDisk())
        self._unanswered: dict[str, int] = {}  # name of the file -> number of URLs in it
        self._answer = Answer()
        self._left = 0
        self._stored = 0
        self._full: str | None = None  # why the URLs stay in the inbox

    async def all(self, urls: Sequence[str]) -> int:
        for start in range(0, len(urls), MOST_URLS):
            self._deposit(urls[start : start + MOST_URLS])
        return await self.report()

    async def stream(self) -> int:
        """Add standard input as it arrives, until it ends. Raises SeedsError."""
        async for lines in gathered(stream_batches(STDIN)):
            self._deposit(lines)
            if self.waits and len(self._unanswered) >= _UNANSWERED:
                await self.wait_until(_UNANSWERED - 1)
        return await self.report()

    def _deposit(self, urls: Sequence[str]) -> None:
        seed, priority = self._seed, self._priority
        self.leave(len(urls), lambda inbox: inbox.deposit(urls, seed=seed, answer=self.waits, priority=priority))

    def leave(self, count: int, deposit: Callable[[Inbox], str]) -> None:
        """Leave a file of that many URLs in the inbox. Raises NotStoredError."""
        try:
            name = deposit(self._inbox)
        except OSError as error:
            before = f"the first {self._stored} are, the others" if self._stored else "they"
            raise NotStoredError(
                f"the URLs cannot be stored in {self._inbox.path}: {error.strerror or error}: {before} were not added: "
                "run the same command again once this is fixed"
            ) from error
        self._stored += count
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
                await self._admit_inbox()
            else:
                await asyncio.sleep(_POLL)

    async def _admit_inbox(self) -> None:
        """Admit what is in the inbox, because no crawl is running; on a full disk leave it there. Raises JobError,
        OSError."""
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
            injector = Injector(job, Discovery.of(job, self._settings, Reading()), self._inbox, lambda: None)
            draining = asyncio.create_task(injector.drain(clock()))
            while not draining.done() and job.blocked is None:
                await asyncio.wait({draining}, timeout=_POLL)
            if job.blocked is not None:
                # It waits for room, and nothing but a run looks for some.
                draining.cancel()
                await asyncio.wait({draining})
                raise OSError(errno.ENOSPC, job.blocked)
            await draining
            await job.checkpoint(clock())
        finally:
            job.close()

    async def report(self) -> int:
        """Wait for the answers, and say what they are. Raises JobError, OSError."""
        if self.waits:
            await self.wait_until(0)
        elif lock_holder(self._directory) is None:
            say(sys.stderr, f"crawler: no crawl is running: {counted(self._left, 'URL')} left in {self._inbox.path}")
        answer = self._answer
        for url, reason in answer.rejected:
            say(sys.stderr, f"skipped: {url}: {reason}")
        if answer.credentials_dropped:
            named = f"{counted(answer.credentials_dropped, 'URL')} with credentials"
            say(sys.stderr, f"crawler: warning: {named}, which are not sent: they belong in the configuration")
        if self.waits:
            print(self.words(answer))
            if self._left and self._full is not None:
                say(
                    sys.stderr,
                    f"crawler: the URLs cannot be admitted now: {self._full}: {counted(self._left, 'URL')} left in "
                    f"{self._inbox.path}; the next run, or the next `crawler add`, admits them",
                )
            elif self._left:
                say(
                    sys.stderr,
                    f"crawler: no answer from the crawl yet: {counted(self._left, 'URL')} left in {self._inbox.path}",
                )
        else:
            print(f"{self._left} left in the inbox")
        return Exit.OK

    def words(self, answer: Answer) -> str:
        """Say what became of the URLs."""
        return (
            f"{answer.admitted} admitted, {answer.known} known, {answer.off_scope} out of scope, "
            f"{len(answer.rejected)} invalid"
        )


async def gathered(batches: AsyncIterator[list[str]]) -> AsyncIterator[list[str]]:
    """Yield the same lines in larger batches: those of one second, or as many as a file holds."""
    lines: list[str] = []
    coming = asyncio.ensure_future(_next(batches))
    while True:
        done, _ = await asyncio.wait({coming}, timeout=_PATIENCE if lines else None)
        more = coming.result() if done else None
        if done and more is not None:
            lines += more
            coming = asyncio.ensure_future(_next(batches))
            if len(lines) < MOST_URLS:
                continue
        while lines:
            yield lines[:MOST_URLS]
            lines = lines[MOST_URLS:]
        if done and more is None:
            return


async def _next(batches: AsyncIterator[list[str]]) -> list[str] | None:
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return None
