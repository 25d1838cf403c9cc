"""Copies the bodies that records name: files that never change, and are named by what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import make_private_directory
from crawler.inspect.backup.copying import Copied, is_copy, link_or_copy, sync
from crawler.inspect.backup.layout import BackupError
from crawler.job.output import lines_of
from crawler.job.output.body_files import body_in, is_whole
from crawler.job.output.rotated_files import Size

_KNOWN_MOST = 65_536  # bodies that were met last


def copy_bodies(pages: Path, start: int, end: int, source: Path, target: Path, copied: Copied) -> Size:
    """Copy the bodies that the records between two offsets name from the directory ``source`` to ``target``, durably,
    but for those that are there. Returns by how much ``target`` has grown. One that is missing stays missing, and
    is counted. Raises OSError, and BackupError if something else is where a body belongs."""
    files = size = 0
    changed = set[Path]()  # at most the 65,536 directories that there can be
    for name in _named(pages, start, end):
        if not (source / name).is_file():
            copied.missing += 1
            continue
        path = target / name
        _check_place(path)
        changed.add(path.parent)  # also if it is there: the backup that added it may have been interrupted
        if path.exists():
            if _stays(source, target, name):
                continue
            files, size = files - 1, size - path.stat().st_size
            path.unlink()
        if not path.parent.is_dir():
            for made in (path.parents[2], path.parents[1], path.parents[0]):
                make_private_directory(made, exist_ok=True)
        link_or_copy(source / name, path, None, copied)
        files, size = files + 1, size + path.stat().st_size
    for directory in {each for low in changed for each in (low, *low.parents[:3])}:
        sync(directory)
    return Size(files, size)


def damaged_bodies(pages: Path, end: int, source: Path) -> int:
    """How many of the bodies that the records name are there and are not what their names say. Reads all of them.
    Raises OSError."""
    return sum((source / name).is_file() and not is_whole(source, name) for name in _named(pages, 0, end))


def _named(pages: Path, start: int, end: int) -> Iterator[str]:
    """The bodies that the records between two offsets name."""
    known: dict[str, None] = {}  # many records may name the same
    for _, line in lines_of(pages, end, start):
        name = body_in(line)
        if name is None or name in known:
            continue
        known[name] = None
        if len(known) > _KNOWN_MOST:
            del known[next(iter(known))]
        yield name


def _check_place(path: Path) -> None:
    """Raises BackupError if something else is where a body belongs, or one of its directories."""
    for above in path.parents[:3]:
        if os.path.lexists(above) and not above.is_dir():
            raise BackupError(f"{above} is not a directory: remove it, and run the same command again")
    if path.is_dir() or (path.is_symlink() and not path.exists()):
        raise BackupError(f"{path} is not a file: remove it, and run the same command again")


def _stays(source: Path, target: Path, name: str) -> bool:
    """Whether the file in ``target`` is good. That of the source may have taken the place of one that was damaged, of
    which ``target`` has the second name; and the data of a copy that was interrupted may be lost. So one that is not
    known to be a copy of what is there now is read."""
    if is_copy(target / name, (source / name).stat()):
        return True
    if not is_whole(target, name):
        return False
    sync(target / name)  # the copy may have been interrupted before that
    return True
