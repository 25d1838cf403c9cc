"""Makes a job of requests durable in the background: each call starts at most one piece of a sync or generation, which
runs in the job's thread, so the spider never waits for the disk.

It also tracks finished requests whose bytes are still stored. The bytes are deleted once the end of the request is
durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import DurabilitySettings
from crawler.job.checkpointer import drive, drive_slowly
from crawler.job.job import Job


def delete(names: Iterable[bytes], batch: Batch) -> None:
    """Delete the bytes of these requests."""
    for name in names:
        batch.delete(Family.REQUESTS, name)


class EndedNames:
    """Finished requests whose bytes are still stored. A sync makes those ends durable that were written before the sync
    started."""

    def __init__(self, found: list[bytes]) -> None:
        self._written = found
        self._syncing: list[bytes] = []
        self.durable: list[bytes] = []

    def add(self, names: Iterable[bytes]) -> None:
        """Record that the ends of these requests are being written."""
        self._written.extend(names)

    def begin_sync(self) -> None:
        """Record the start of a sync. If an earlier sync failed, this one also covers the ends that the earlier one was
        to cover."""
        self._syncing += self._written
        self._written = []

    def synced(self) -> None:
        """Record the completion of the sync."""
        self.durable += self._syncing
        self._syncing = []

    def take_durable(self) -> list[bytes]:
        """Return the requests whose ends are durable; the caller deletes their bytes."""
        gone, self.durable = self.durable, []
        return gone


class Upkeep:
    """Runs the syncs and generations of one job, one at a time."""

    def __init__(self, job: Job, ended: EndedNames, settings: DurabilitySettings, now: float) -> None:
        self._job = job
        self._ended = ended
        self._settings = settings
        self._next_sync = now + settings.sync_interval
        self._next_checkpoint = now + settings.checkpoint_interval
        self._task: Iterator[Future[None]] = iter(())
        self._piece: Future[None] | None = None  # the current piece of the task; None between two tasks

    def go_on(self, now: float) -> None:
        """Start the next due task, or continue the current one. Raises OSError."""
        if self._piece is not None:
            if self._piece.done():
                self._step()
        elif now >= self._next_sync:
            self._next_sync = now + self._settings.sync_interval
            self._begin(self._sync())
        elif now >= self._next_checkpoint and self._job.writer.whole:
            self._next_checkpoint = now + self._settings.checkpoint_interval
            self._forget_bytes()
            if self._job.writer.whole:
                self._begin(drive_slowly(self._job.checkpointer.checkpoint(now), self._job.files.executor))

    def _begin(self, task: Iterator[Future[None]]) -> None:
        self._task = task
        self._step()

    def _step(self) -> None:
        """Start the next piece of the task, when the current one has ended. Raises OSError."""
        self._piece = next(self._task, None)

    def _sync(self) -> Iterator[Future[None]]:
        self._ended.begin_sync()
        yield from drive_slowly(self._job.checkpointer.sync(), self._job.files.executor)
        self._ended.synced()

    def _settle(self) -> None:
        """Wait until the current task has ended. Raises OSError."""
        while self._piece is not None:
            self._step()

    def sync(self) -> None:
        """Make all written data durable, and wait for it. Raises OSError."""
        self._settle()
        self._begin(self._sync())
        self._settle()

    def _forget_bytes(self) -> None:
        # A generation discards the previous journal, which records the finished requests, so delete their bytes first.
        gone = self._ended.take_durable()
        if gone:
            self._job.change_hosts(partial(delete, gone))

    def end(self, now: float) -> None:
        """Write the last generation, and wait for it. Raises OSError."""
        self.sync()
        self._forget_bytes()
        if self._job.writer.whole:
            drive(self._job.checkpointer.checkpoint(now, whole=True))
            self.sync()
