"""A replica: a directory that is made to equal a job elsewhere, step by step.

It has the files of a job, and nobody opens it as one while it follows. Its store says which step it holds. When the job
is lost, the directory is opened as the job, and resumes like one that lost its power at that step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from crawler.base.disk import failpoint
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import OutputSettings
from crawler.job.directory import LACKS_BODIES, PAGES, STORE
from crawler.job.identity import read_identity
from crawler.job.job_lock import JobLock
from crawler.job.kept_steps import KeptSteps
from crawler.job.output import Outputs
from crawler.job.output.appended_file import OutputError
from crawler.job.platform import Platform
from crawler.job.records import Body, sequence_key
from crawler.job.recovery import check_output, stored_counters
from crawler.job.replica.step_codec import Chunk, Mark, Step
from crawler.job.replica_generations import BrokenOffError, ReplicaGenerations
from crawler.job.step_log import MARK, leaves_out


class GapError(Exception):
    """The steps do not follow what the directory holds: it must be copied again."""


class Follower:
    """The directory of a replica, opened for writing. Always close it."""

    def __init__(self, directory: Path, platform: Platform, sizes: OutputSettings, *, checks: bool = True) -> None:
        """``checks``: compare the outputs with the store, and cut them where that says; otherwise they are known to end
        there. Raises JobError if another process has it, GapError if outputs lack what its store names, ChunkError,
        OSError."""
        self.directory = directory
        self._disk = platform.disk
        with contextlib.ExitStack() as undo:
            lock = JobLock(directory)
            undo.callback(lock.release)
            identity = read_identity(directory)
            self._store = platform.open_store(directory / STORE)
            undo.callback(self._store.close)
            self.mark = Mark.decode(self._store.get(Family.META, MARK))
            self._outputs = Outputs(directory / PAGES, self._disk, sizes.file_size, pages_size=sizes.pages_size)
            undo.callback(self._outputs.close)
            self._has_failed = False  # the store refuses writes until it is opened again
            self._kept: KeptSteps | None = None
            self._inode = directory.stat().st_ino
            self._trimmed = 0  # the sequence before which the store tells of no finished URL any more
            self._syncing = Lock()
            self.generations = ReplicaGenerations(directory, platform, identity, self._store)
            if checks:
                self._settle()
            self._undo = undo.pop_all()

    def _settle(self) -> None:
        """Cut off what no step names. Raises GapError, OSError."""
        lacks = leaves_out(self._store)
        if lacks and not (self.directory / LACKS_BODIES).exists():  # it was the job before
            self._disk.open(self.directory / LACKS_BODIES, create=True).close()
            self._disk.sync_directory(self.directory)
        sequence = self.generations.sequence
        if sequence > stored_counters(self._store).sequence:
            raise GapError(f"{self.directory}: its generation is of a later state than its store")
        cut = check_output(self._store, self._outputs, sequence, bodies=not lacks)
        if cut.lost or cut.lost_asides:
            raise GapError(f"{self.directory}: the records of {len(cut.lost)} finished URLs are lost")
        cut.apply(self._outputs)

    def apply(self, chunk: Chunk) -> None:
        """Write the steps of the chunk that are not written yet. Hands them to the operating system. Raises GapError,
        OSError, BatchError; a further call with the same chunk then writes the rest, as soon as there is room again."""
        if self._has_failed:
            with self.generations.none_under_way():
                self._store.reopen()
            self.mark = Mark.decode(self._store.get(Family.META, MARK))
            self._has_failed = False
            if self._kept is not None and self._kept.mark != self.mark:
                self._kept = None
        for number, step in enumerate(chunk.steps, chunk.first):
            before = Mark(chunk.line if number > chunk.first else chunk.base, number - 1)
            if self.mark == before:
                self._write(step)
                self.mark = Mark(chunk.line, number)
                if self._kept is not None:
                    self._kept.add(chunk.line, step)
            elif self.mark.line != chunk.line or self.mark.number < number:
                raise GapError(f"{self.directory} holds step {self.mark.number}: step {number} does not follow it")

    def _write(self, step: Step) -> None:
        batch = Batch.decode(step.batch)
        # When the job forgets finished URLs its generations cover them. Ours do not yet: see ``sync``.
        batch.changes = [change for change in batch.changes if change[0] is not Family.DONE or change[3] is None]
        for digest, data in step.bodies:
            self._outputs.bodies.put(Body(digest, data))
        try:
            for file, start, data in step.written:
                self._outputs.append_at(file, start, data)
        except OutputError as error:
            raise GapError(str(error)) from error
        failpoint("replica.recorded")
        with self._failing():
            self._store.write(batch)
        self.generations.add(batch)
        failpoint("replica.written")

    def keep(self, most: int) -> None:
        """Keep so many bytes of the last steps, from now on, for other replicas of the job."""
        if not most:
            self._kept = None
        elif self._kept is None:
            self._kept = KeptSteps(self.mark, most)
        else:
            self._kept.most = most

    @property
    def is_in_place(self) -> bool:
        """Whether the path still leads to the directory that was opened. Raises OSError."""
        try:
            return self.directory.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._has_failed = True
            raise

    def checkpoint(self, now: float) -> list[str]:
        """Write a generation of the seen-set, so that this can become the job in a bounded time. May run in a thread
        beside the other methods, which do not wait for it; when the store is closed, it is broken off. Returns what was
        wrong with former generations. Raises OSError, and the errors of damaged files."""
        try:
            return self.generations.write(now, self._sync)
        except BrokenOffError:
            return []

    def sync(self) -> None:
        """Make what was applied durable. May run in a thread. Raises OSError."""
        self._sync()
        covered = self.generations.covered
        border = sequence_key(covered)
        # At least one stays, which says where the output ends.
        if covered > self._trimmed and self._store.scan(Family.DONE, border, None, 1):
            batch = self._store.batch()
            batch.delete_range(Family.DONE, b"", border)
            with self._failing():
                self._store.write(batch)
            self._trimmed = covered

    def _sync(self) -> None:
        with self._syncing:
            self._outputs.sync()
            with self._failing():
                self._store.sync()

    def close(self) -> KeptSteps | None:
        """Release all files. Writes nothing. Returns the last steps that were applied, if they were kept."""
        with self.generations.none_under_way():
            self.generations.is_over = True
            self._undo.close()
        return self._kept
