"""Gives files a second name where the file system allows it, and copies them otherwise."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import CANNOT_LINK, RealDisk
from crawler.job.output.record_text import open_text

_PIECE = 2**20
sync = RealDisk().sync_file  # also the names in a directory


class Copied(Struct):
    """What a backup or a restoration had to write. A file that only got a second name counts with no bytes.
    ``missing``: bodies that records name and that were not there to be copied."""

    files: int = 0
    bytes: int = 0
    missing: int = 0


def link_or_copy(source: Path, target: Path, before: Path | None, copied: Copied) -> None:
    """Link or copy ``source`` to ``target``, durably. Neither file may ever be changed in place.

    ``before`` may be an earlier copy. If its size and time of change agree, ``target`` becomes a second name of it.
    Raises OSError."""
    found = source.stat()
    if before is not None and is_copy(before, found):
        os.link(before, target)
        return
    copied.files += 1
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        shutil.copyfile(source, target)
        sync(target)
        # Only now: with this time it counts as a copy.
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        copied.bytes += found.st_size
    else:
        sync(target)


def is_copy(path: Path, original: os.stat_result) -> bool:
    """Whether the file is a second name or a finished copy of the original, as far as one can tell without reading
    it. Raises OSError."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if found.st_dev == original.st_dev:
        return found.st_ino == original.st_ino
    return (found.st_size, found.st_mtime_ns) == (original.st_size, original.st_mtime_ns)


def copy_range(source: Path, target: Path, start: int, end: int, copied: Copied) -> None:
    """Copy the bytes of ``source`` from ``start`` up to ``end`` to the same offset of ``target``, durably; ``target``
    then ends there. ``source`` may be the text of several files. Raises OSError, and EOFError if it is shorter."""
    with open_text(source, whole=True) as reading, open(target, "ab") as writing:
        writing.truncate(start)
        reading.seek(start)
        left = end - start
        while left:
            piece = reading.read(min(left, _PIECE))
            if not piece:
                raise EOFError(f"{source} has {end - left} bytes where {end} are needed")
            writing.write(piece)
            left -= len(piece)
        writing.flush()
        os.fsync(writing.fileno())
    copied.files += end > start
    copied.bytes += end - start
