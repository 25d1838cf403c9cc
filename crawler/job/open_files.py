"""The files of a job: opened for writing by one process, and closed together."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from crawler.base.disk import DisplacedError, failpoint, is_at, make_private_directory
from crawler.base.settings.parts import OutputSettings
from crawler.job.directory import (
    BROKEN_OFF,
    IDENTITY,
    PAGES,
    REPAIRED,
    SEEN,
    STORE,
    UNUSABLE,
    JobError,
    check_in_bucket,
    check_restored,
    holds_job,
    make_directory,
)
from crawler.job.identity import (
    Identity,
    Shaping,
    begin_identity,
    check_fetcher,
    check_partition,
    read_identity,
)
from crawler.job.job_lock import JobLock
from crawler.job.output import Outputs
from crawler.job.output.record_text import text_size
from crawler.job.platform import Platform
from crawler.job.snapshot import COPYING, remove_tree
from crawler.job.step_log import StepLog
from crawler.job.store.wal import dropped_records
from crawler.seen.filters import KeyHash


class OpenFiles:
    """The lock, identity, store, outputs and log of steps of a job. ``resumed``: the directory already contained a job.
    ``dropped``: the parts of its logs that the store could not read."""

    def __init__(self, directory: Path, shaping: Shaping, platform: Platform, sizes: OutputSettings) -> None:
        """Open the files; ``sizes`` limits the output files. Raises JobError (also for an unwritable directory), and
        OSError if the disk fails."""
        self.directory = directory
        self.resumed = holds_job(directory)
        self.disk = disk = platform.disk
        if self.resumed:
            # Check before anything is written, including the lock file.
            check_fetcher(directory, platform.fetcher)
            check_partition(directory, platform.partition)
            check_in_bucket(directory, platform.line)
        with contextlib.ExitStack() as undo:
            try:
                make_directory(directory, disk)
                lock = JobLock(directory)
            except OSError as error:
                if error.errno not in UNUSABLE:
                    raise
                raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
            undo.callback(lock.release)
            remove_tree(directory / COPYING)  # left by a process that was killed
            # Held open, so that no other directory can get its inode number.
            place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, place)
            self._place = os.fstat(place)
            self.identity = self._identify(platform, shaping)
            self.store = platform.open_store(directory / STORE)
            undo.callback(self.store.close)
            self.log = StepLog(platform.line, room=platform.room)
            self.log.load(self.store)
            _make_private(directory / STORE)
            self._store_place = os.stat(directory / STORE)  # RocksDB keeps it open
            self.dropped = dropped_records(directory / STORE)
            self.outputs = Outputs(directory / PAGES, disk, sizes.file_size, pages_size=sizes.pages_size)
            undo.callback(self.outputs.close)
            self.outputs.pages.tidy()
            _make_private(directory / SEEN)
            # Without a sync of the directory, a power loss may remove the names of synced files.
            disk.sync_directory(directory)
            failpoint("resume.opened")
            self.executor = platform.executor()
            undo.callback(self.executor.shutdown)
            self._undo = undo.pop_all()

    def look(self) -> None:
        """Raise DisplacedError if the job directory, its store or an output was moved, removed or replaced."""
        self.look_for_directories()
        self.outputs.look()

    def look_for_directories(self) -> None:
        """Raise DisplacedError if the job directory or its store was moved or removed. Also works after ``close``."""
        if not self.is_there():
            raise DisplacedError(
                f"the job directory {self.directory} was moved or removed during the crawl: if it was moved, restart "
                "the crawl with its new path"
            )
        if not is_at(self._store_place, self.directory / STORE):
            raise DisplacedError(
                f"{self.directory / STORE} was moved or removed during the crawl: put it back as it was, or run "
                f"`crawler repair {self.directory}` to start over; then run the same command"
            )

    def is_there(self) -> bool:
        """True if the path of the job directory still leads to it. Also works after ``close``."""
        return is_at(self._place, self.directory)

    def _identify(self, platform: Platform, shaping: Shaping) -> Identity:
        """Create the job in its directory, or check that no part of the job to resume is missing."""
        directory = self.directory
        pages = directory / PAGES
        if (directory / REPAIRED).exists():
            raise JobError(f"{directory}: {BROKEN_OFF}")
        if self.resumed:
            if not (directory / STORE).is_dir() and text_size(pages):
                raise JobError(f"{directory}: {STORE}/ is missing but {PAGES} exists: restore {STORE}/", new_job=True)
            return read_identity(directory)
        check_restored(directory)
        if any((directory / name).exists() for name in (PAGES, STORE, SEEN)):
            raise JobError(
                f"{directory} contains a part of a crawl but no {IDENTITY}: restore that file or run "
                f"`crawler repair {directory}`",
                new_job=True,
            )
        secret = KeyHash.new(shaping["seen"]["hash"])
        identity = Identity(shaping, secret, fetcher=platform.fetcher, partition=platform.partition)
        begin_identity(self.disk, directory, identity)
        return identity

    def close(self) -> None:
        """Release all files. Writes nothing."""
        self._undo.close()


def _make_private(path: Path) -> None:
    """Create the directory if necessary, and deny access to other users: its files contain the secret of the job."""
    make_private_directory(path, exist_ok=True)
    with contextlib.suppress(PermissionError):  # another user owns the directory
        path.chmod(0o700)
