"""Copies the bodies that records name: files that never change, and are named by what is in them."""

from __future__ import annotations

from pathlib import Path

from crawler.backup.copying import Copied, link_or_copy, sync
from crawler.disk import make_private_directory
from crawler.output import lines_of
from crawler.output.body_files import body_in

_TOGETHER = 4_096  # directories that are synced together


def copy_bodies(pages: Path, start: int, end: int, source: Path, target: Path, copied: Copied) -> int:
    """Copy the bodies that the records between two offsets name from the directory ``source`` to ``target``, durably,
    but for those that are there. Returns their bytes. One that is missing stays missing: ``verify`` says so. Raises
    OSError."""
    size, changed = 0, set[Path]()
    for _, line in lines_of(pages, end, start):
        name = body_in(line)
        if name is None or not (source / name).is_file():
            continue
        path, length = target / name, (source / name).stat().st_size
        if path.exists():
            if path.stat().st_size == length:
                continue
            path.unlink()  # a copy that was interrupted
        for made in (path.parents[2], path.parents[1], path.parents[0]):
            if not made.is_dir():
                make_private_directory(made, exist_ok=True)
                changed.add(made.parent)
        link_or_copy(source / name, path, None, copied)
        size += length
        changed.add(path.parent)
        if len(changed) > _TOGETHER:
            _sync(changed)
    _sync(changed)
    return size


def _sync(directories: set[Path]) -> None:
    for directory in directories:
        sync(directory)
    directories.clear()
