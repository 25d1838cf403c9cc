"""Updates a copy of a job directory from the steps of a log.

While the copy is updated, no process may have it open as a job. The copy's store records the last step that it
includes. When the copy is opened as a job, it resumes as after a power loss at that step.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import OutputSettings
from crawler.job.checkpoint.generations import KEPT, Generations
from crawler.job.directory import PAGES, SEEN, STORE
from crawler.job.job_lock import JobLock
from crawler.job.output import Outputs
from crawler.job.output.appended_file import OutputError
from crawler.job.platform import Platform
from crawler.job.records import Body
from crawler.job.recovery import check_output, stored_counters
from crawler.job.step_log import MARK
from crawler.job.steps.step_codec import Chunk, Mark, Step


class GapError(Exception):
    """The steps do not follow the state of the directory."""


class Follower:
    """A copy of a job directory, opened for writing. It must be closed."""

    def __init__(self, directory: Path, platform: Platform, sizes: OutputSettings, *, checks: bool = True) -> None:
        """Open the directory. ``checks``: compare the outputs with the store, and cut them to match it; if False, they
        are known to match.

        Raises JobError if another process has the directory open, GapError if outputs lack data to which the store
        refers, EnvelopeError if the newest generation is damaged, ChunkError, OSError."""
        self.directory = directory
        with contextlib.ExitStack() as undo:
            lock = JobLock(directory)
            undo.callback(lock.release)
            self._store = platform.open_store(directory / STORE)
            undo.callback(self._store.close)
            self.mark = Mark.decode(self._store.get(Family.META, MARK))
            self._outputs = Outputs(directory / PAGES, platform.disk, sizes.file_size, pages_size=sizes.pages_size)
            undo.callback(self._outputs.close)
            if checks:
                self._settle(Generations(directory / SEEN, KEPT, platform.disk))
            self._undo = undo.pop_all()

    def _settle(self, generations: Generations) -> None:
        """Cut off data that belongs to no step. Raises GapError, OSError."""
        numbers = generations.numbers()
        sequence = generations.read_manifest(numbers[0]).sequence if numbers else 0
        if sequence > stored_counters(self._store).sequence:
            raise GapError(f"{self.directory}: its generation is newer than its store")
        cut = check_output(self._store, self._outputs, sequence)
        if cut.lost or cut.lost_asides:
            raise GapError(f"{self.directory}: the records of {len(cut.lost)} finished URLs are lost")
        cut.apply(self._outputs)

    def apply(self, chunk: Chunk) -> None:
        """Write the steps of the chunk that are not written yet, without a sync. Raises GapError, OSError,
        BatchError."""
        for number, step in enumerate(chunk.steps, chunk.first):
            before = Mark(chunk.line if number > chunk.first else chunk.base, number - 1)
            if self.mark == before:
                self._write(step)
                self.mark = Mark(chunk.line, number)
            elif self.mark.line != chunk.line or self.mark.number < number:
                raise GapError(f"{self.directory} holds step {self.mark.number}: step {number} does not follow it")

    def _write(self, step: Step) -> None:
        batch = Batch.decode(step.batch)
        # A job removes finished URLs that its generations cover. The generations of this copy may not cover those URLs,
        # so keep them.
        batch.changes = [change for change in batch.changes if change[0] is not Family.DONE or change[3] is None]
        for digest, data in step.bodies:
            self._outputs.bodies.put(Body(digest, data))
        try:
            for file, start, data in step.written:
                self._outputs.append_at(file, start, data)
        except OutputError as error:
            raise GapError(str(error)) from error
        self._store.write(batch)

    def sync(self) -> None:
        """Make the applied steps durable. Raises OSError."""
        self._outputs.sync()
        self._store.sync()

    def close(self) -> None:
        """Release all files. Writes nothing."""
        self._undo.close()
