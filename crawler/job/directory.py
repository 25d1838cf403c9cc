"""The names of the files in a job directory, and checks to run before anything in it is changed."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Collection
from pathlib import Path

from crawler import __version__
from crawler.base.disk import Disk, make_private_directory
from crawler.base.faults import UserFault
from crawler.job.checkpoint.envelope import envelope_version

IDENTITY = "job.json"
STORE = "store"
BROKEN_OFF = "a repair was interrupted here: `crawler repair` completes it"
RESTORING = "restoring"  # exists while a job is being restored from a bucket
BUCKET = "bucket.json"  # exists if the crawl is stored in a bucket
REPAIRED = "store.repaired"  # a new store, until a repair replaces the old one with it
SEEN = "seen"
OBJECT_PARTS = ".part"  # exists only in the directory of a store or a backup
SEEN_FIGURES = "seen-figures.json"  # exists only in buckets, for their readers
PAGES = "pages.jsonl"
LIVE = "live.json"
DEMO = "demo.json"  # exists if `crawler demo` created the job
CHECK = "check.json"  # exists if `crawler check` created the job
LAUNCH_LOG = "crawl.log"  # the output of a crawl that a dashboard or an agent started
LAUNCH_LOG_BEFORE = f"{LAUNCH_LOG}.1"  # the output of the crawl started before that one
LAUNCH_SEEDS = "seeds.txt"  # the seeds that were entered to start such a crawl
# Names allowed in a directory without a job: the file system's own, files left by a crawl that was killed before it
# started, and files of the program that starts one.
_LAUNCHED = frozenset({"lock", f"{IDENTITY}.part", LAUNCH_LOG, LAUNCH_LOG_BEFORE, LAUNCH_SEEDS})
_BEFORE = _LAUNCHED | {"lost+found", "crash.txt", BUCKET}
# These errors mean that the directory cannot be used as requested. All other errors mean a failure of the disk or the
# system.
UNUSABLE = frozenset(
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


class JobError(UserFault):
    """The job directory cannot be used as requested. ``str`` returns one line for the user.

    ``new_job``: the user may start a new job in another directory instead. ``fault`` is the line without that advice,
    so that the command line can name its own option."""

    def __init__(self, fault: str, *, new_job: bool = False) -> None:
        super().__init__(fault)
        self.fault = fault
        self.new_job = new_job

    def __str__(self) -> str:
        return f"{self.fault}, or start a new job in another directory" if self.new_job else self.fault


class OtherFormatError(JobError):
    """Another version of the program created the job or crawl. It is not damaged."""


def check_format(data: bytes, name: Path | str, magic: str, version: int, former: str) -> None:
    """Raise OtherFormatError if the first line of ``job.json`` or ``crawl.json`` has another version, or the ``former``
    magic of an unreleased format that can no longer be read. ``name`` names the job or crawl in the message."""
    if envelope_version(data, former) is not None:
        raise OtherFormatError(
            f"{name} was created by an older, unreleased version of this program, nothing was changed: finish it with "
            "commit f6e4da37, the last that opens it",
            new_job=True,
        )
    number = envelope_version(data, magic)
    if number is not None and number != version:
        raise OtherFormatError(
            f"{name} has format version {number}; this program, crawler {__version__}, opens version {version}, "
            "nothing was changed: use the program that created it",
            new_job=True,
        )


def made_at(directory: Path) -> float:
    """Return when the job was created, in seconds since 1970: the time of ``job.json``, which a repair may change. 0 if
    there is no job yet."""
    try:
        return (directory / IDENTITY).stat().st_mtime
    except OSError:
        return 0.0


def holds_job(directory: Path) -> bool:
    """True if the directory contains a job."""
    return (directory / IDENTITY).is_file()


def is_free(directory: Path) -> bool:
    """True if a new job may be launched there: the directory is missing, is empty, or holds only files of a launch
    whose crawl was killed before it created the job."""
    try:
        return not directory.is_symlink() and {path.name for path in directory.iterdir()} <= _LAUNCHED
    except FileNotFoundError:
        return True
    except OSError:
        return False


def check_restored(directory: Path) -> None:
    """Raise JobError if ``crawler restore`` was interrupted before it had created the job: the files that it left are
    not the remains of a crawl. A crawl in a bucket is restored again when it is resumed, so it is not refused."""
    if (directory / RESTORING).exists() and not holds_job(directory) and not (directory / BUCKET).exists():
        raise JobError(f"{directory}: `crawler restore` was interrupted here: run it again")


def check_in_bucket(directory: Path, line: int) -> None:
    """Raise JobError if the crawl is stored in a bucket, and the caller keeps no log of the job's steps (``line`` is
    0), so that the bucket would lack its changes."""
    if not line and (directory / BUCKET).exists():
        raise JobError(
            f"{directory} is the cache of a crawl in a store, which would lack the change: run the command while "
            "the crawl runs, or in a copy created by `crawler restore`"
        )


def check_vacant(directory: Path, own: Collection[str] = ()) -> None:
    """Raise JobError if a new job would be mixed with foreign files: a mistyped --job must not fill a directory of
    photographs. Files named in ``own`` are allowed. ``OpenFiles`` checks for parts of a crawl."""
    try:
        found = {path.name for path in directory.iterdir()}
    except OSError:
        return  # the directory is missing or unusable; its creation reports the error
    check_restored(directory)
    if BUCKET in found:
        return  # the crawl will be restored again
    strange = sorted(name for name in found - _BEFORE - set(own) if not name.startswith("."))
    if strange and not found & {PAGES, STORE, SEEN, REPAIRED}:
        raise JobError(
            f"{directory} holds other files ({strange[0]}) but no crawl: name an empty directory, or the directory of "
            "a crawl"
        )


def make_directory(directory: Path, disk: Disk) -> None:
    """Create the directory and its missing parents, and make their names durable. Raises JobError if the path is
    unusable, and OSError for other errors."""
    above = [parent for parent in directory.absolute().parents if not parent.exists()]
    try:
        make_private_directory(directory, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
    for path in (directory.absolute(), *above):
        # A parent that this user may not read existed before, so its name is durable.
        with contextlib.suppress(PermissionError):
            disk.sync_directory(path.parent)
