"""Converts a job of an older format to the newest one, before it is opened for writing.

    convert.new/    a copy of the job's state, while it is converted; then the parts that are not in their place yet
    convert.old/    the parts that they replace, until the conversion has ended

1. If stored bytes must change, the state is copied (tables get a second name) and the copy is converted. Until the
   copy is complete and durable, the job is unchanged: if the process is killed here, the conversion begins again.
2. ``job.json`` names the newest format and the one that the job is converted from. From here on, older programs refuse
   the job, and the next run continues with step 3.
3. The copy replaces the original, part by part. The store gets the families that it lacks.
4. ``job.json`` names the newest format alone. What was replaced is removed.

An additive format needs no copy. ``pages.jsonl`` is the user's and is never converted.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from crawler.disk import Disk, failpoint
from crawler.job.directory import SEEN, STORE
from crawler.job.formats import Formats, JobCopy
from crawler.job.identity import Identity, read_identity, write_identity
from crawler.store import RocksStore, copy_closed

NEW = "convert.new"
OLD = "convert.old"


def convert_job(disk: Disk, directory: Path, formats: Formats) -> str | None:
    """Convert the job if it is of an older format, and finish a conversion that was interrupted. The caller holds the
    job's lock. Returns a line that says what was done; None if nothing was.

    Raises JobError, and OSError when the store cannot be opened or the disk fails."""
    identity = read_identity(directory, formats)
    start = identity.stored_format
    while identity.converting is not None or identity.format < formats.newest:
        if identity.converting is None:
            if formats.conversions_after(identity.format):
                _convert_copy(disk, directory, identity.format, formats)
            identity = replace(identity, format=formats.newest, converting=identity.format)
            write_identity(disk, directory, identity)
            failpoint("convert.marked")
        identity = _finish(disk, directory, identity, formats)
    _remove(directory)
    return None if start == identity.format else f"converted from format version {start} to {identity.format}"


def _convert_copy(disk: Disk, directory: Path, number: int, formats: Formats) -> None:
    new = directory / NEW
    _remove(directory)
    (new / SEEN).mkdir(parents=True)
    copy_closed(directory / STORE, new / STORE)
    for path in (directory / SEEN).iterdir():
        if path.is_file():
            disk.link(path, new / SEEN / path.name)
    failpoint("convert.copied")
    store = RocksStore(new / STORE, optional=formats.families_after(number))
    try:
        for convert in formats.conversions_after(number):
            convert(JobCopy(store, new / SEEN))
            failpoint("convert.step")
        store.sync()
    finally:
        store.close()
    _sync_tree(new)
    disk.sync_directory(directory)
    failpoint("convert.built")


def _finish(disk: Disk, directory: Path, identity: Identity, formats: Formats) -> Identity:
    """Steps 3 and 4: ``job.json`` says that the job is being converted."""
    new, old = directory / NEW, directory / OLD
    for part in (STORE, SEEN):
        if not (new / part).exists():
            continue
        old.mkdir(exist_ok=True)
        if (directory / part).exists():
            disk.move(directory / part, old / part)
            disk.sync_directory(old)
            failpoint("convert.aside")
        disk.move(new / part, directory / part)
        disk.sync_directory(directory)
        disk.sync_directory(new)
        failpoint("convert.placed")
    # Opening the store creates the families that it lacks.
    RocksStore(directory / STORE, optional=formats.families_after(identity.stored_format)).close()
    failpoint("convert.extended")
    ended = replace(identity, converting=None)
    write_identity(disk, directory, ended)
    failpoint("convert.ended")
    return ended


def _remove(directory: Path) -> None:
    for name in (NEW, OLD):
        if (directory / name).exists():
            shutil.rmtree(directory / name)


def _sync_tree(top: Path) -> None:
    """Make all files under ``top`` durable, and their names."""
    for path, _, files in os.walk(top):
        for name in (*files, ""):
            fd = os.open(os.path.join(path, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
