"""The names of the files in a job directory, and the checks that come before anything is changed in it."""

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
RESTORING = "restoring"  # there while a job is made from what is in a bucket
BUCKET = "bucket.json"  # there if the crawl lives in a bucket
REPAIRED = "store.repaired"  # a new store, until a repair moves it to the place of the old one
SEEN = "seen"
SEEN_FIGURES = "seen-figures.json"  # there only in what is in a bucket, and for who looks at that
PAGES = "pages.jsonl"
LIVE = "live.json"
DEMO = "demo.json"  # there if `crawler demo` made the job
CHECK = "check.json"  # there if `crawler check` made the job
LAUNCH_LOG = "crawl.log"  # what a crawl says that a dashboard has started ...
LAUNCH_SEEDS = "seeds.txt"  # ... and the seeds that it was given there
# Names allowed in a directory without a job: the file system's own, what a crawl leaves that was killed before it
# began, and what the dashboard makes that starts one.
_BEFORE = frozenset({"lost+found", "lock", f"{IDENTITY}.part", "crash.txt", BUCKET, LAUNCH_LOG, LAUNCH_SEEDS})
# These errors mean that the directory cannot be used as asked. All others mean that the disk or the system fails.
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
    """The job directory cannot be used as requested. ``str`` gives one line for the user.

    ``new_job``: a new job in another directory is a way out. ``fault`` is then the line without that advice, so that
    the command line can name its own option."""

    def __init__(self, fault: str, *, new_job: bool = False) -> None:
        super().__init__(fault)
        self.fault = fault
        self.new_job = new_job

    def __str__(self) -> str:
        return f"{self.fault}, or start a new job in another directory" if self.new_job else self.fault


class OtherFormatError(JobError):
    """Another version of the program made the job or crawl. It is not damaged."""


def check_format(data: bytes, name: Path | str, magic: str, version: int, former: str) -> None:
    """Raise OtherFormatError if the first line of ``job.json`` or ``crawl.json`` has another version than this one, or
    the ``former`` magic: what that stands for was never released, and is not read any longer. ``name`` is what the
    message calls the job or crawl."""
    if envelope_version(data, former) is not None:
        raise OtherFormatError(
            f"{name} was made by an older, unreleased version of this program, nothing was changed: finish it with "
            "commit f6e4da37, the last that can",
            new_job=True,
        )
    number = envelope_version(data, magic)
    if number is not None and number != version:
        raise OtherFormatError(
            f"{name} has format version {number}; this program, crawler {__version__}, opens version {version}, "
            "nothing was changed: use the program that made it",
            new_job=True,
        )


def made_at(directory: Path) -> float:
    """When the job began, in seconds since 1970: ``job.json`` was written then; a repair may write it again. 0 if there
    is no job yet."""
    try:
        return (directory / IDENTITY).stat().st_mtime
    except OSError:
        return 0.0


def holds_job(directory: Path) -> bool:
    """Whether the directory holds a job."""
    return (directory / IDENTITY).is_file()


def check_restored(directory: Path) -> None:
    """Raise JobError if ``crawler restore`` was interrupted before it had made the job: what there is of it is not the
    remains of a crawl. That of a crawl in a bucket is restored again when it goes on."""
    if (directory / RESTORING).exists() and not holds_job(directory) and not (directory / BUCKET).exists():
        raise JobError(f"{directory}: `crawler restore` was interrupted here: run it again")


def check_in_bucket(directory: Path, line: int) -> None:
    """Raise JobError if the crawl lives in a bucket, and whoever opens the job keeps no log of its steps (``line`` is
    0): the bucket would not have what it changes."""
    if not line and (directory / BUCKET).exists():
        raise JobError(
            f"{directory} is the cache of a crawl in a store, which would not have the change: run the command while "
            "the crawl runs, or in a copy that `crawler restore` makes"
        )


def check_vacant(directory: Path, own: Collection[str] = ()) -> None:
    """Raise JobError if a new job would be mixed with foreign files: a mistyped --job must not fill a directory of
    photographs. Files with the names in ``own`` are allowed. ``OpenFiles`` checks for parts of a crawl."""
    try:
        found = {path.name for path in directory.iterdir()}
    except OSError:
        return  # it does not exist yet, or cannot be used, which is reported when it is made
    check_restored(directory)
    if {BUCKET, RESTORING} <= found:
        return  # it is restored again
    strange = sorted(name for name in found - _BEFORE - set(own) if not name.startswith("."))
    if strange and not found & {PAGES, STORE, SEEN, REPAIRED}:
        raise JobError(
            f"{directory} holds other files ({strange[0]}) but no crawl: name an empty directory, or that of a crawl"
        )


def make_directory(directory: Path, disk: Disk) -> None:
    """Create the directory and its missing parents, and make their names durable. Raises JobError if none can be there,
    OSError."""
    above = [parent for parent in directory.absolute().parents if not parent.exists()]
    try:
        make_private_directory(directory, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise JobError(f"cannot use job directory {directory}: {error.strerror}") from error
    for path in (directory.absolute(), *above):
        # A directory that this user may not read existed before.
        with contextlib.suppress(PermissionError):
            disk.sync_directory(path.parent)
