"""Converts a job of an older format to the newest one, before it is opened for writing.

    convert.new/    a copy of the job's state, while it is converted; then the parts that are not in their place yet
    convert.old/    the parts that they replace, until the conversion has ended

1. If stored bytes must change, or the job's hash gets a secret (``rekey``), the state is copied (tables get a second
   name) and the copy is converted. Until the copy is complete and durable, the job is unchanged: if the process is
   killed here, the conversion begins again.
2. ``job.json`` names the newest format and the one that the job is converted from. From here on, older programs refuse
   the job, and the next run continues with step 3.
3. The copy replaces the original, part by part. The store gets the families that it lacks.
4. ``job.json`` names the newest format alone. What was replaced is removed.

An additive format needs no copy. ``pages.jsonl`` is the user's and is never converted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from crawler.base.disk import Disk, failpoint, make_private_directory
from crawler.base.kv import Family, Store
from crawler.job.directory import BROKEN_OFF, SEEN, STORE, JobError
from crawler.job.formats import Formats, JobCopy
from crawler.job.identity import Identity, read_identity, write_identity
from crawler.job.metrics import duration
from crawler.job.recovery import REPAIRING, kept_hash
from crawler.job.rekey import KeyChange, NotWholeError, rekey
from crawler.job.step_log import MARK
from crawler.job.store import RocksStore, copy_closed
from crawler.seen.filters import KeyHash

NEW = "convert.new"
OLD = "convert.old"
_SILENT = 5.0  # seconds between two lines about the progress
log = logging.getLogger("crawler")


def convert_job(disk: Disk, directory: Path, formats: Formats) -> list[str]:
    """Convert the job if it is of an older format, give its hash a secret if it has none, and finish a conversion that
    was interrupted. The caller holds the job's lock. Returns lines that say what was done.

    Raises JobError, and OSError when the store cannot be opened or the disk fails."""
    identity = read_identity(directory, formats)
    start = identity.stored_format
    notes: list[str] = []
    while identity.converting is not None or identity.format < formats.usual or _lacks_hash(identity, formats):
        if identity.converting is None:
            converted = _convert_copy(disk, directory, identity, formats)
            if _lacks_hash(identity, formats):
                notes += _words(converted)
            identity = replace(converted, format=max(identity.format, formats.usual), converting=identity.format)
            write_identity(disk, directory, identity)
            failpoint("convert.marked")
        identity = _finish(disk, directory, identity, formats)
    discard_copy(disk, directory)
    return (
        notes if start == identity.format else [f"converted from format version {start} to {identity.format}", *notes]
    )


def _words(identity: Identity) -> Iterator[str]:
    if identity.unkeyed is not None:
        yield f"the seen-set keeps its hash without a secret, so that one page can hide another: {identity.unkeyed}"
    elif identity.hash is not None and identity.hash.keyed:
        yield "the seen-set was rebuilt with a secret: no page can hide another one any more"


def _convert_copy(disk: Disk, directory: Path, identity: Identity, formats: Formats) -> Identity:
    """``_converted``, without a copy that fills the disk if it cannot be completed."""
    try:
        return _converted(disk, directory, identity, formats)
    except OSError:
        with contextlib.suppress(OSError):
            discard_copy(disk, directory)
        raise


def _converted(disk: Disk, directory: Path, identity: Identity, formats: Formats) -> Identity:
    """If stored bytes must change, convert a copy of the job's state. Returns the identity with the hash of the
    state."""
    discard_copy(disk, directory)
    if _lacks_hash(identity, formats):
        if identity.hash_in_use.forgeable:
            try:
                with _copied(disk, directory, identity.format, formats) as copy:
                    return replace(identity, hash=_with_secret(directory, copy, identity), unkeyed=None)
            except NotWholeError as error:
                identity = replace(identity, unkeyed=str(error))
                discard_copy(disk, directory)
        identity = replace(identity, hash=identity.hash_in_use)
    if formats.conversions_after(identity.format):
        with _copied(disk, directory, identity.format, formats):
            pass
    return identity


def _lacks_hash(identity: Identity, formats: Formats) -> bool:
    return identity.hash is None and formats.keyed


def _with_secret(directory: Path, copy: JobCopy, identity: Identity) -> KeyHash:
    """Replace all digests in the copy. Returns the new hash. Raises NotWholeError."""
    if copy.store.get(Family.META, REPAIRING) is not None:
        raise JobError(f"{directory}: {BROKEN_OFF}")
    kept = kept_hash(copy.store)
    if kept is not None:
        return kept  # the store has a secret already: its `job.json` was replaced by an older one
    settings = identity.shaping
    new = KeyHash.new(settings["seen"]["hash"])
    change = KeyChange(identity.hash_in_use, new, tuple(settings["canonical"]["rules"]), settings["seen"]["ledger"])
    rekey(directory, copy.store, change, Progress())
    for path in copy.seen.iterdir():
        path.unlink()  # the journal alone makes the seen-set
    failpoint("rekey.done")
    return new


class Progress:
    """Says how far the new digests are and when they will be done, if it takes long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._next = self._began + _SILENT

    def __call__(self, done: int, of: int) -> None:
        now = self._clock()
        if now >= self._next:
            left = (now - self._began) / done * max(0, of - done)
            log.warning(
                "rebuilding the seen-set with a secret, once, before the crawl goes on: %s of %s URLs, about %s left",
                f"{done:,}",
                f"{of:,}",
                duration(left),
            )
            self._next = now + _SILENT


@contextmanager
def _copied(disk: Disk, directory: Path, number: int, formats: Formats) -> Iterator[JobCopy]:
    """A copy of the job's state in the newest format; complete and durable when the block ends."""
    new = directory / NEW
    make_private_directory(new)
    make_private_directory(new / SEEN)
    copy_closed(directory / STORE, new / STORE)
    # A job that was killed as it began may have neither part.
    for path in (directory / SEEN).iterdir() if (directory / SEEN).is_dir() else ():
        if path.is_file():
            disk.link(path, new / SEEN / path.name)
    failpoint("convert.copied")
    store = RocksStore(new / STORE, optional=formats.families_after(number))
    try:
        copy = JobCopy(store, new / SEEN)
        for convert in formats.conversions_after(number):
            convert(copy)
            failpoint("convert.step")
        _unnumber(store)
        yield copy
        store.sync()
    finally:
        store.close()
    _sync_tree(disk, new)
    disk.sync_directory(directory)
    failpoint("convert.built")


def _unnumber(copy: Store) -> None:
    """No replica follows the state that a conversion makes."""
    batch = copy.batch()
    batch.delete(Family.META, MARK)
    copy.write(batch)


def _finish(disk: Disk, directory: Path, identity: Identity, formats: Formats) -> Identity:
    """Steps 3 and 4: ``job.json`` says that the job is being converted."""
    place_parts(disk, directory)
    # Opening the store creates the families that it lacks.
    RocksStore(directory / STORE, optional=formats.families_after(identity.stored_format)).close()
    failpoint("convert.extended")
    ended = replace(identity, converting=None)
    write_identity(disk, directory, ended)
    failpoint("convert.ended")
    return ended


def place_parts(disk: Disk, directory: Path) -> None:
    """Step 3, or what is left of it: put each part of the copy in the place of the original."""
    new, old = directory / NEW, directory / OLD
    for part in (STORE, SEEN):
        if not (new / part).exists():
            continue
        if (directory / part).exists():
            make_private_directory(old, exist_ok=True)
            disk.sync_directory(directory)  # before the only copy of the part that the job knows is moved there
            disk.move(directory / part, old / part)
            disk.sync_directory(old)
            failpoint("convert.aside")
        disk.move(new / part, directory / part)
        disk.sync_directory(directory)
        disk.sync_directory(new)
        failpoint("convert.placed")


def discard_copy(disk: Disk, directory: Path) -> None:
    """Remove what a conversion left. Durably: were a part of the copy back after a power loss, once ``job.json`` says
    that the job is being converted, it would pass for the whole. The old parts go first: while there are some, the new
    ones are complete."""
    left = [directory / name for name in (OLD, NEW) if (directory / name).exists()]
    for path in left:
        shutil.rmtree(path)
    if left:
        disk.sync_directory(directory)


def _sync_tree(disk: Disk, top: Path) -> None:
    """Make all files under ``top`` durable, and their names."""
    for path, _, files in os.walk(top):
        for name in files:
            disk.sync_file(Path(path, name))
        disk.sync_directory(Path(path))
