"""Makes a job directory from a backup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from crawler.base.disk import failpoint, make_private_directory
from crawler.base.kv import Family
from crawler.inspect.backup.body_copies import copy_bodies, damaged_bodies
from crawler.inspect.backup.copying import Copied, copy_range, link_or_copy, sync
from crawler.inspect.backup.layout import BackupError, Manifest, kept_name, output_name, read_manifest, state_name
from crawler.job.directory import IDENTITY, PAGES, RESTORING, SEEN, STORE, holds_job
from crawler.job.identity import read_identity
from crawler.job.output.body_files import BODY_SIZES, decode_sizes, encode_sizes, sizes_found
from crawler.job.output.rotated_files import Size
from crawler.job.snapshot import remove_tree
from crawler.job.store.rocks import Broken, RocksStore, StoreError


class Restored(NamedTuple):
    """What was restored. ``damaged``: bodies in the backup that are known not to be what their names say."""

    manifest: Manifest
    written: Copied
    damaged: int


def restore(top: Path, directory: Path) -> Restored:
    """Make a job in ``directory``, which must be missing or empty, from the backup in ``top``. Until everything is
    copied, the directory holds no job; an interrupted restoration can be run again. Bodies that are not there are not
    restored.

    Raises BackupError, JobError if another version of the program made the job, and OSError."""
    manifest = read_manifest(top)
    if manifest is None:
        raise BackupError(f"{top} holds no backup: name a directory that `crawler backup` has written")
    manifest.check_sizes(top)
    state = top / state_name(manifest.number)
    read_identity(state)  # another version's is refused
    _make_empty(directory)
    (directory / RESTORING).touch()
    written = Copied()
    for name in sorted(manifest.files):
        if name == IDENTITY:
            continue
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".sst" or target.parent.name == SEEN:
            link_or_copy(state / name, target, None, written)
        else:  # the store appends to some of these files
            copy_range(state / name, target, 0, manifest.files[name], written)
    copy_range(top / output_name(manifest.output), directory / PAGES, 0, manifest.output_end, written)
    for name, size in manifest.kept_files.items():
        make_private_directory((directory / name).parent, exist_ok=True)
        copy_range(top / kept_name(manifest.kept) / name, directory / name, 0, size, written)
    bodies = copy_bodies(directory / PAGES, 0, manifest.output_end, top, directory, written)
    # More may be left of an interrupted backup, and less of one that added again what somebody had removed.
    doubtful = sizes_found(top).bytes < manifest.bodies
    damaged = damaged_bodies(directory / PAGES, manifest.output_end, top) if doubtful else 0
    if bodies.files:
        _count_bodies(directory / STORE, bodies)
    for path, _, _ in os.walk(directory):
        sync(Path(path))
    failpoint("restore.copied")
    # With this file the directory holds a job.
    part = directory / f"{IDENTITY}.part"
    copy_range(state / IDENTITY, part, 0, manifest.files[IDENTITY], written)
    part.replace(directory / IDENTITY)
    sync(directory)
    failpoint("restore.done")
    (directory / RESTORING).unlink()
    sync(directory.absolute().parent)
    return Restored(manifest, written, damaged)


def _count_bodies(path: Path, bodies: Size) -> None:
    """Have the store count the bodies that there are: the job may have had some that no record names."""
    try:
        store = RocksStore(path, broken=Broken.REFUSE)
    except StoreError as error:
        if error.errno is not None:
            raise
        return  # it is damaged: ``verify`` says so, and ``repair`` counts them
    try:
        if decode_sizes(store.get(Family.META, BODY_SIZES)) != bodies:
            batch = store.batch()
            batch.put(Family.META, BODY_SIZES, encode_sizes(bodies))
            store.write(batch)
            store.sync()
    finally:
        store.close()


def _make_empty(directory: Path) -> None:
    """Raises BackupError if the directory holds anything but what an interrupted restoration left."""
    if directory.exists() and not directory.is_dir():
        raise BackupError(f"{directory} is not a directory")
    if holds_job(directory):
        raise BackupError(f"{directory} holds a crawl: name an empty directory")
    make_private_directory(directory, parents=True, exist_ok=True)
    left = sorted(path for path in directory.iterdir() if path.name != "lost+found")
    if left and not (directory / RESTORING).exists():
        raise BackupError(f"{directory} is not empty ({left[0].name}): name an empty directory")
    for path in left:
        remove_tree(path)
