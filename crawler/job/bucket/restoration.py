"""Restores a job directory from a bucket: the files of a snapshot, and the later steps in the log.

Everything is written to DIR/restoring/ first. Once that is complete and durable, the directory's old content is
removed, and the new files are moved into place, ``job.json`` last: until then the directory holds no job, and an
interrupted restoration starts over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import Disk, failpoint, make_private_directory
from crawler.base.kv import Family
from crawler.job.bucket.layout import Snapshot, Stored, newest_snapshot
from crawler.job.bucket.log_objects import steps_after
from crawler.job.bucket.objects import BucketError, Objects
from crawler.job.bucket.pieces import MissingPieceError, Pieces
from crawler.job.bucket.snapshots import BODY
from crawler.job.directory import IDENTITY, LIVE, PAGES, RESTORING, SEEN, SEEN_FIGURES, STORE, holds_job, make_directory
from crawler.job.follower import Follower, GapError
from crawler.job.identity import read_identity
from crawler.job.job_lock import LOCK
from crawler.job.output.body_files import BODY_SIZES, DIRECTORY, encode_sizes, sizes_found
from crawler.job.output.outputs import FORMS
from crawler.job.platform import Platform
from crawler.job.records import body_name
from crawler.job.run_settings import read_run
from crawler.job.snapshot import remove_tree
from crawler.job.steps.seal import Sealing
from crawler.job.steps.step_codec import START, Chunk, Mark
from crawler.job.store.rocks import Broken, RocksStore

_PARTS = frozenset((PAGES, STORE, SEEN, LIVE, DIRECTORY, *(form.name for form in FORMS.values())))


def every_file(name: str) -> bool:
    """Return True: every file is needed."""
    return True


class Wanted(Struct, frozen=True):
    """What to restore. ``most``: the newest epoch whose snapshot may be used; None: any. ``needed(path)`` returns True
    if the content of that file of the job is needed; other files are created with their size but no content, which
    takes no disk space. For bodies, ``needed`` is called with their directory; if it returns False, no body is
    restored."""

    most: int | None = None
    needed: Callable[[str], bool] = every_file

    @property
    def is_all(self) -> bool:
        """True if a crawl can be resumed from the restored files."""
        return self.needed is every_file


EVERYTHING = Wanted()
_AT_ONCE = 8  # number of files fetched concurrently
_AT_HAND = 2  # number of pieces kept in memory, because small files share them


class Restored(Struct, frozen=True):
    """The restored job of a partition, and the number of log steps applied to the snapshot."""

    partition: int
    directory: Path
    snapshot: Snapshot
    steps: int


def restore(
    objects: Objects,
    sealing: Sealing,
    partition: int,
    directory: Path,
    disk: Disk,
    wanted: Wanted = EVERYTHING,
) -> Restored:
    """Restore the job of the partition into ``directory``, replacing any job there. ``sealing`` seals the logs of the
    crawl. If the store is unusable, nothing is changed. Raises BucketError (including when there is no snapshot),
    BucketDown, JobError, OSError."""
    making, new = directory / RESTORING, not directory.exists()
    make_directory(directory, disk)
    with undone(directory if new else making):
        snapshot = fetch(objects, partition, directory, disk, wanted)
        chunks = steps_after(objects, sealing, partition, snapshot)
        steps = follow(making, chunks, checks=wanted.is_all) if snapshot.worker else 0
    place_restored(directory, disk)
    return Restored(partition, directory, snapshot, steps)


@contextmanager
def undone(*paths: Path) -> Iterator[None]:
    """A context that removes these files and directories if its block fails."""
    try:
        yield
    except BaseException:
        for path in paths:
            remove_tree(path)
        raise


def fetch(objects: Objects, partition: int, directory: Path, disk: Disk, wanted: Wanted = EVERYTHING) -> Snapshot:
    """Write the files of the newest snapshot durably below DIR/restoring, and return the snapshot. Raises BucketError
    (including when there is none), BucketDown, JobError, OSError."""
    tried: Snapshot | None = None
    while True:
        snapshot = newest_snapshot(objects, partition, wanted.most)
        if snapshot is None:
            raise BucketError(f"{objects.address} holds no snapshot yet: nothing can be restored")
        try:
            _fetch(Pieces(objects, partition), snapshot, directory, disk, wanted.needed)
        except MissingPieceError:
            if snapshot == tried:
                raise
            tried = snapshot  # a newer snapshot may have replaced this one meanwhile
            continue
        return snapshot


def place_restored(directory: Path, disk: Disk) -> None:
    """Move the files written by ``fetch``, with all later steps, into place. Raises OSError."""
    making = directory / RESTORING
    failpoint("restore.copied")
    if holds_job(directory):
        disk.unlink(directory / IDENTITY)
        disk.sync_directory(directory)
    _remove_parts(directory)
    (making / LOCK).unlink(missing_ok=True)  # ``directory`` has its own lock
    for path in sorted(making.iterdir(), key=lambda path: path.name == IDENTITY):
        disk.replace(path, directory / path.name)
    disk.sync_directory(directory)
    failpoint("restore.done")
    making.rmdir()


def follow(directory: Path, chunks: Iterable[Chunk], *, least: Mark = START, checks: bool = True) -> int:
    """Apply steps durably to the job in the directory, skipping those it already has: steps are numbered over the job's
    whole life, and no other directory has written any since. Returns the number applied. ``checks``: see ``Follower``.
    Raises GapError if the steps do not follow the job's last step, or if the job does not reach the step ``least``.
    Also raises BucketError, BucketDown, JobError, OSError."""
    follower = Follower(directory, Platform(), read_run(directory).settings.output, checks=checks)
    try:
        before = follower.mark.number
        if before < least.number:
            raise GapError(f"{directory} ends at step {before}, before the snapshot's step {least.number}")
        for chunk in chunks:
            if chunk.reaches.number > follower.mark.number:
                follower.apply(chunk)
        follower.sync()
        return follower.mark.number - before
    finally:
        follower.close()


def _remove_parts(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name in _PARTS or path.name.startswith("pages-"):
            remove_tree(path)


def _fetch(pieces: Pieces, snapshot: Snapshot, directory: Path, disk: Disk, needed: Callable[[str], bool]) -> None:
    """Write the files of the snapshot below ``DIR/restoring``."""
    making = directory / RESTORING
    remove_tree(making)
    make_private_directory(making)
    files = snapshot.files | snapshot.outputs | ({PAGES: snapshot.pages} if snapshot.pages.size else {})
    needed = _with_figures(files, needed)
    has_bodies, get = needed(DIRECTORY), lru_cache(_AT_HAND)(pieces.get)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bucket") as executor:
        making_each = [
            executor.submit(_write if needed(name) else _leave_out, get, making, name, files[name]) for name in files
        ]
        packs = [executor.submit(_unpack, pieces, making, pack) for pack in snapshot.bodies if has_bodies]
    written = [each.result() for each in making_each] + [path for pack in packs for path in pack.result()]
    directories = {parent for path in written for parent in path.parents if making in (parent, *parent.parents)}
    disk.sync_many(making, written, directories)
    read_identity(making)  # refuses a job of another version
    if has_bodies and (snapshot.bodies or snapshot.missing):
        _count_bodies(making)


def _with_figures(files: dict[str, Stored], needed: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a function that selects the needed ones of ``files``. A caller that needs only the seen-set's figures gets
    the seen-set itself if there are no figures. Other callers do not get the figures, which would not match the resumed
    crawl."""
    if needed is every_file or not needed(SEEN_FIGURES):
        files.pop(SEEN_FIGURES, None)
    elif SEEN_FIGURES not in files:
        return lambda name: needed(name) or name.startswith(f"{SEEN}/")
    return needed


def _place(making: Path, name: str) -> Path:
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise BucketError(f"{name!r} is not a file of a job")
    _make_above(making / name, making)
    return making / name


def _leave_out(_: Callable[[str], bytes], making: Path, name: str, stored: Stored) -> Path:
    """Create a file of the right size without content."""
    path = _place(making, name)
    with open(path, "xb") as stream:
        stream.truncate(stored.size)
    return path


def _write(get: Callable[[str], bytes], making: Path, name: str, stored: Stored) -> Path:
    path, end = _place(making, name), stored.at + stored.size
    with open(path, "xb") as stream:
        for piece in stored.pieces:
            stream.write(get(piece)[stored.at : end])
        if stream.tell() != stored.size:
            raise BucketError(f"the pieces of {name} have {stream.tell()} bytes, not {stored.size}")
    return path


def _unpack(pieces: Pieces, making: Path, digest_of_pack: str) -> list[Path]:
    pack, at, written = pieces.get(digest_of_pack), 0, list[Path]()
    while at < len(pack):
        digest, size = BODY.unpack_from(pack, at)
        at += BODY.size + size
        path = making / body_name(digest)
        _make_above(path, making)
        path.write_bytes(pack[at - size : at])
        written.append(path)
    return written


def _count_bodies(making: Path) -> None:
    """Update the store's count of bodies: it may include bodies that no record names, which are not restored."""
    store = RocksStore(making / STORE, broken=Broken.REFUSE)
    try:
        batch = store.batch()
        batch.put(Family.META, BODY_SIZES, encode_sizes(sizes_found(making)))
        store.write(batch)
        store.sync()
    finally:
        store.close()


def _make_above(path: Path, making: Path) -> None:
    for above in reversed(path.parents):
        if making in above.parents and not above.is_dir():
            make_private_directory(above, exist_ok=True)  # several threads may create the directory
