"""Makes a backup of a job from its snapshot."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import RealDisk, failpoint, make_private_directory
from crawler.base.kv import Family, Reader
from crawler.inspect.backup.body_copies import copy_bodies
from crawler.inspect.backup.copying import Copied, copy_range, link_or_copy, sync
from crawler.inspect.backup.layout import (
    MANIFEST,
    BackupError,
    Manifest,
    Source,
    kept_name,
    output_name,
    parts,
    read_manifest,
    state_name,
    write_manifest,
)
from crawler.inspect.job_reader import open_job
from crawler.job.directory import BROKEN_OFF, PAGES, REPAIRED, SEEN, STORE
from crawler.job.identity import read_identity
from crawler.job.metrics.catalogue import Counters
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.body_files import sizes_found
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import open_text, text_size
from crawler.job.records import decode_done, decode_ends, file_number
from crawler.job.recovery import REPAIRING, stored_end
from crawler.job.snapshot import SNAPSHOT, remove_snapshot, remove_tree
from crawler.job.transaction import OUTPUT_ENDS

_TAIL = 64 * 1024  # bytes at the end of the earlier copy that must agree with the output before it is extended


class BackedUp(Struct, frozen=True):
    """A finished backup. ``written``: what it had to write."""

    manifest: Manifest
    counters: Counters
    written: Copied

    @property
    def size(self) -> int:
        """Bytes of the whole backup."""
        return self.manifest.size


def back_up(directory: Path, to: Path, take: Callable[[], None], now: float) -> BackedUp:
    """Make or update the backup of a job in ``to``. ``take`` is called to have the snapshot made. ``now`` is in
    seconds since 1970.

    Raises BackupError, JobError and OSError; an earlier backup is then unchanged."""
    read_identity(directory)
    if (directory / REPAIRED).exists():
        raise BackupError(f"{directory}: {BROKEN_OFF}")
    check_apart(directory, to)
    with ExitStack() as held:
        held.enter_context(_alone(directory, "of that job"))
        before = _check_target(to)
        make_private_directory(to, parents=True, exist_ok=True)
        held.enter_context(_alone(to, "to that directory"))
        try:
            take()
            return _copy(directory, directory / SNAPSHOT, to, before, now)
        finally:
            remove_snapshot(directory)


def check_apart(directory: Path, to: Path) -> None:
    """Raise BackupError if one of the directories lies inside the other."""
    job, target = directory.resolve(), to.resolve()
    if target == job or job in target.parents:
        raise BackupError(f"{to} lies inside the job {directory}: name a directory elsewhere")
    if target in job.parents:
        raise BackupError(f"the job {directory} lies inside {to}: name a directory elsewhere")


def _check_target(to: Path) -> Manifest | None:
    """The earlier backup; None if there is none. Raises BackupError if the directory holds something else."""
    if not to.exists():
        return None
    if not to.is_dir():
        raise BackupError(f"{to} is not a directory")
    before = read_manifest(to)
    if before is None:
        # These may be left of a first backup that was interrupted.
        ours = {path.name for path, _, _ in parts(to)} | {"lost+found", f"{MANIFEST}.part", BODIES}
        strange = sorted(path.name for path in to.iterdir() if path.name not in ours)
        if strange:
            raise BackupError(f"{to} holds other files ({strange[0]}) but no backup: name an empty directory")
    return before


@contextmanager
def _alone(directory: Path, what: str) -> Iterator[None]:
    """Lock the directory. Raises BackupError if another process is making a backup ``what``."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"another backup {what} is under way: {directory}") from None
        yield
    finally:
        os.close(fd)


def _copy(directory: Path, snapshot: Path, to: Path, before: Manifest | None, now: float) -> BackedUp:
    with open_job(snapshot) as job:
        if job.store.get(Family.META, REPAIRING) is not None:
            raise BackupError(f"{directory}: {BROKEN_OFF}")
        end, counters = _journal_end(job.store), job.counters
        kept_files = _kept_files(directory, job.store)
    source = _source(directory, snapshot)
    if before is not None and before.source.is_other(source):
        raise BackupError(f"{to} holds a backup of {before.source.directory}, another job: name another directory")
    known = _known_bodies(to, before)
    for path, kind, number in list(parts(to)):
        if before is None or number != _number(before, kind):
            remove_tree(path)  # left of a backup that was interrupted
    written = Copied()
    number = 1 if before is None else before.number + 1
    files = _copy_state(
        snapshot, to / state_name(number), None if before is None else to / state_name(before.number), written
    )
    failpoint("backup.copied")
    pages = directory / PAGES
    end = min(end, text_size(pages))  # after a power loss the file may be shorter
    output = _copy_output(pages, to, end, before, source, written)
    kept = _copy_kept(directory, to, kept_files, before, written)
    grows = before is not None and output == before.output
    start = before.output_end if before is not None and grows else 0
    bodies = known + copy_bodies(to / output_name(output), start, end, directory, to, written).bytes
    failpoint("backup.output")
    sync(to)
    sync(to.parent)
    manifest = Manifest(number, output, end, source, files, now, kept, kept_files, bodies)
    write_manifest(RealDisk(), to, manifest)
    failpoint("backup.done")
    for path, kind, each in list(parts(to)):
        if each != _number(manifest, kind):
            remove_tree(path)
    return BackedUp(manifest, counters, written)


def _known_bodies(to: Path, before: Manifest | None) -> int:
    """The bytes of the bodies that are there: those that the earlier backup counted, unless one was interrupted since,
    which may have added some."""
    if before is not None and all(number == _number(before, kind) for _, kind, number in parts(to)):
        return before.bodies
    return sizes_found(to).bytes


def _number(manifest: Manifest, kind: str) -> int:
    """The number of what belongs to the backup, of a kind that ``parts`` names."""
    return {"state": manifest.number, "output": manifest.output, "kept": manifest.kept}[kind]


def _kept_files(directory: Path, store: Reader) -> dict[str, int]:
    """The files of the other outputs, and how much of each belongs to the journal of the snapshot. Those before the
    last one are full; somebody may have moved them away. Raises JournalError."""
    found: dict[str, int] = {}
    for kind, end in decode_ends(store.get(Family.META, OUTPUT_ENDS)).items():
        for number in FORMS[kind].numbers(directory):
            path = FORMS[kind].path(directory, number)
            size = path.stat().st_size
            if file_number(kind, number) < end.file:
                found[str(path.relative_to(directory))] = size
            elif file_number(kind, number) == end.file:
                found[str(path.relative_to(directory))] = min(size, end.offset)  # after a power loss it may be shorter
    return found


def _copy_kept(directory: Path, to: Path, files: dict[str, int], before: Manifest | None, written: Copied) -> int:
    """Copy the files of the other outputs. Append to those of the earlier backup if they hold the beginnings of the
    same. Returns the number of their directory."""
    if not files:
        return 0
    number, known = (0, dict[str, int]()) if before is None else (before.kept, before.kept_files)
    copies = to / kept_name(number)
    both = [(name, size) for name, size in known.items() if name in files]  # full ones may have been moved away since
    if not number or not all(
        size <= files[name] and _agree(directory / name, copies / name, size) for name, size in both
    ):
        number, known = number + 1, {}
    for name, size in files.items():
        target = to / kept_name(number) / name
        for made in (target.parent.parent, target.parent):
            make_private_directory(made, exist_ok=True)
        copy_range(directory / name, target, known.get(name, 0), size, written)
        sync(target.parent)
    sync(to / kept_name(number))
    return number


def _journal_end(store: Reader) -> int:
    """Where the output ends, according to the journal of the snapshot."""
    end = stored_end(store) or 0
    for _, value in store.rows(Family.DONE):
        end = decode_done(value).positions[0].end
    return end


def _source(directory: Path, snapshot: Path) -> Source:
    name = snapshot / STORE / "IDENTITY"
    output = None
    if (directory / PAGES).exists():
        found = (directory / PAGES).stat()
        output = (found.st_dev, found.st_ino)
    return Source(str(directory.resolve()), name.read_text("ascii").strip() if name.exists() else "", output)


def _copy_state(snapshot: Path, state: Path, before: Path | None, written: Copied) -> dict[str, int]:
    """Copy the snapshot. Returns the size of each file, by its path in the state."""
    files: dict[str, int] = {}
    make_private_directory(state)
    for top, directories, names in os.walk(snapshot):
        below = Path(top).relative_to(snapshot)
        for name in directories:
            make_private_directory(state / below / name)
        for name in names:
            path = below / name
            # Only tables and slices keep their names and never change; other files are small.
            lasting = before is not None and (path.suffix == ".sst" or below.name == SEEN)
            link_or_copy(snapshot / path, state / path, before / path if before and lasting else None, written)
            files[str(path)] = (state / path).stat().st_size
        sync(state / below)
    return files


def _copy_output(pages: Path, to: Path, end: int, before: Manifest | None, source: Source, written: Copied) -> int:
    """Copy the output up to ``end``. Append to the file of the earlier backup if that holds the beginning of the same
    output. Returns the number of the file."""
    if before is not None and source.output == before.source.output and before.output_end <= end:
        target = to / output_name(before.output)
        if _agree(pages, target, before.output_end):
            copy_range(pages, target, before.output_end, end, written)
            return before.output
    number = 1 if before is None else before.output + 1
    target = to / output_name(number)
    if end:
        copy_range(pages, target, 0, end, written)
    else:
        target.touch()
    return number


def _agree(pages: Path, copy: Path, end: int) -> bool:
    """Whether both files hold the same bytes just before ``end``."""
    try:
        with open_text(pages) as one, open(copy, "rb") as other:
            for stream in (one, other):
                stream.seek(max(0, end - _TAIL))
            size = min(end, _TAIL)
            data = one.read(size)
            return len(data) == size and data == other.read(size)
    except FileNotFoundError:
        return False
