"""Makes a running job durable: syncs it every second and writes a checkpoint generation every minute."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from functools import partial

from crawler.base.disk import Expendable
from crawler.base.settings.parts import DurabilitySettings
from crawler.engine.context import Context
from crawler.job.checkpointer import CheckpointResult, RefusedBy
from crawler.job.job import Job
from crawler.job.markdown_files import DIRECTORY, derive_own, name_of_job, read_cursor
from crawler.job.metrics.events import Kind

log = logging.getLogger("crawler")

REST = 3.0  # pause before the next generation, as a multiple of the last generation's duration


_COMPRESS_INTERVAL = 1.0  # seconds between two checks for a full file
_COMPRESS_REST = 60.0  # time limit in seconds to compress the last files: enough for several gigabytes


class DurabilityLoop:
    """Syncs and checkpoints a running job, and waits while the disk is full."""

    def __init__(self, job: Job, settings: DurabilitySettings, context: Context, keep: Collection[str]) -> None:
        """``keep``: the enabled outputs. Raises JobError, OSError."""
        self._job = job
        self._derives = DIRECTORY in keep
        self._expendable = Expendable(DIRECTORY)
        if self._derives:
            read_cursor(job.directory / DIRECTORY, name_of_job(job.files.identity))
        self._settings = settings
        self._context = context
        self._asked: list[asyncio.Future[CheckpointResult | None]] = []
        self._now = asyncio.Event()
        self._paused: str | None = None  # the message that was logged when the job paused
        self._failed: str | None = None  # why the last checkpoint was not written
        self._hurried = False

    async def compress(self) -> None:
        """Compress full files of records until cancelled."""
        await self._job.compress_beside(min(_COMPRESS_INTERVAL, self._settings.checkpoint_interval))

    async def compress_rest(self) -> None:
        """Compress the full record files left at the end of the run, for at most a minute. Stop early if the user waits
        for the end."""
        clock = self._context.clock
        until = clock() + _COMPRESS_REST
        await self._job.compress_rest(lambda: self._hurried or clock() >= until)

    async def derive(self) -> None:
        """Write the Markdown files for each generation, in a thread, until cancelled. Files that could not be written
        are retried at the next interval. Raises JobError."""
        while self._derives:
            await asyncio.sleep(self._settings.checkpoint_interval)
            with self._expendable:
                await self.derive_rest()

    async def derive_rest(self) -> None:
        """Write the remaining Markdown files after the last generation of the run. Raises JobError, OSError."""
        if self._derives:
            files = self._job.files
            await asyncio.to_thread(derive_own, self._job.directory, files.identity, files.outputs.final_text)

    def hurry(self) -> None:
        """Stop optional work early, because the user is waiting for the crawl to end."""
        self._hurried = True

    async def watch(self) -> None:
        """Sync and checkpoint until cancelled. The interval grows if the disk writes generations slowly."""
        clock, settings = self._context.clock, self._settings
        next_checkpoint = clock() + settings.checkpoint_interval * first_part(self._job.files.identity.partition)
        while True:
            await self._until_asked(settings.sync_interval)
            if not self._has_room():
                self._answer(CheckpointResult(refused=RefusedBy.DISK_FULL, detail=self._job.blocked))
                continue
            await self._job.sync()
            # Check again: the disk may have filled up during the sync.
            if (clock() >= next_checkpoint or self._asked) and self._job.blocked is None:
                began = clock()
                await self._checkpoint(began)
                ended = clock()
                next_checkpoint = ended + max(settings.checkpoint_interval, REST * (ended - began))
            self.tell_notes(partial(self._context.said.say, who=self))

    async def checkpoint_now(self) -> CheckpointResult | None:
        """Write a generation now and return the result; None if the run is over and its last checkpoint is being
        written."""
        asked: asyncio.Future[CheckpointResult | None] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._now.set()
        return await asked

    def close(self) -> None:
        """Tell pending checkpoint requests that the run is over."""
        self._answer(None)
        self._context.said.leave(self)

    def tell_notes(self, say: Callable[[str], None]) -> None:
        """Pass the job's notes to the event log and to ``say``."""
        while self._job.notes:
            note = self._job.notes.pop(0)
            self._job.events.add(self._context.clock(), Kind.ERROR, note)
            say(note)

    async def _checkpoint(self, now: float) -> None:
        # A request that arrives while a generation is being written waits for the next one, which also contains the
        # changes made until the request.
        asked = len(self._asked)
        result = await self._job.checkpoint(now)
        failed = None if result.refused is None else refusal_text(result)
        if self._failed is not None and self._failed != failed:
            self._context.said.over(self._failed, self)
        self._failed = failed
        if failed is not None:
            self._job.notes.append(failed)
        self._answer(result, asked)

    async def _until_asked(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until a checkpoint is requested."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._now.wait()
        self._now.clear()

    def _has_room(self) -> bool:
        """Return whether the disk accepts transactions. If a transaction could not be written, retry it first."""
        job, was = self._job, self._job.blocked
        if was is not None and job.writer.write_again():
            if self._paused is not None and self._context.said.over(self._paused, self):
                log.warning("disk space is available again: the crawl resumes")
            self._context.wake()
        elif was is not None and self._paused is None:
            self._paused = f"paused, nothing is lost: {was}; waiting for space"
            self._context.said.say(self._paused, self)
            job.events.add(self._context.clock(), Kind.ERROR, f"the disk is full: {was}")
        if job.blocked is None:
            self._paused = None
        return job.blocked is None

    def _answer(self, result: CheckpointResult | None, first: int | None = None) -> None:
        for asked in self._asked[:first]:
            if not asked.done():
                asked.set_result(result)
        del self._asked[:first]


def first_part(partition: tuple[int, int] | None) -> float:
    """Return the fraction of an interval that passes before the first generation. ``partition``: the number of this
    partition and the total number of partitions. The partitions of a process start together, so their generations are
    staggered."""
    if partition is None:
        return 1.0
    number, partitions = partition
    return (number + 1) / partitions


def refusal_text(result: CheckpointResult) -> str:
    """Return a message that states why no generation was written."""
    return (
        f"no checkpoint was written (the journal has everything since the last one): {result.detail or result.refused}"
    )
