"""The files of a job: opened for writing by one process, closed together."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from crawler.disk import DisplacedError, failpoint, is_at
from crawler.job.directory import PAGES, SEEN, STORE, JobError, Shaping, holds_job, identify, make_directory
from crawler.job.job_lock import JobLock
from crawler.job.platform import Platform
from crawler.output import JsonlOutput
from crawler.store.wal import dropped_records

# What says that the directory cannot be used by whoever asks for it; any other error is the disk's or the system's.
_NO_PLACE = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.EPERM,
    }
)


class OpenFiles:
    """Lock, identity, store and output. ``resumed``: the directory held a job before. ``dropped``: the parts of its
    logs that the store could not read."""

    def __init__(self, directory: Path, shaping: Shaping, platform: Platform) -> None:
        """Raises JobError (also for an unwritable directory), and OSError when the disk fails."""
        self.directory = directory
        self.resumed = holds_job(directory)
        self.disk = disk = platform.disk
        with contextlib.ExitStack() as undo:
            try:
                make_directory(directory, disk)
                lock = JobLock(directory)
            except OSError as error:
                if error.errno not in _NO_PLACE:
                    raise
                raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
            undo.callback(lock.release)
            # Held open, so that no other directory can get its number.
            place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, place)
            self._place = os.fstat(place)
            identify(disk, directory, shaping, resumed=self.resumed)
            (directory / STORE).mkdir(exist_ok=True)
            self.store = platform.open_store(directory / STORE)
            undo.callback(self.store.close)
            self.dropped = dropped_records(directory / STORE)
            self.output = JsonlOutput(directory / PAGES, disk)
            undo.callback(self.output.close)
            (directory / SEEN).mkdir(exist_ok=True)
            # Without a sync of the directory a power loss may remove the names of synced files.
            disk.sync_directory(directory)
            failpoint("resume.opened")
            self.executor = platform.executor()
            undo.callback(self.executor.shutdown)
            self._undo = undo.pop_all()

    def look(self) -> None:
        """Raises DisplacedError when the job directory or its output was moved, removed or replaced."""
        self.look_for_directory()
        self.output.look()

    def look_for_directory(self) -> None:
        """Raises DisplacedError when the job directory was moved or removed. Works also after ``close``."""
        if not is_at(self._place, self.directory):
            raise DisplacedError(
                f"the job directory {self.directory} was moved or removed during the crawl: if it was moved, restart "
                "the crawl with its new path"
            )

    def close(self) -> None:
        """Release all files. Writes nothing."""
        self._undo.close()
