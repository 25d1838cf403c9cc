"""Directories with the files of a database: copies of a closed one, and links through which an open one is read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from crawler.base.disk import make_private_directory

_LOCK = "LOCK"


def copy_closed(path: Path, to: Path) -> None:
    """Create the directory ``to``, on the same file system, with the files of the database at ``path``, if it exists.

    Nothing is made durable. Raises OSError."""
    make_private_directory(to)
    for source in path.iterdir() if path.is_dir() else ():
        # Tables are never changed in place, so a hard link is enough.
        if source.suffix == ".sst":
            os.link(source, to / source.name)
        elif source.is_file() and source.name != _LOCK:
            shutil.copyfile(source, to / source.name)


def data_files(path: Path) -> list[str]:
    """Return the names of a database's own files, which start with a capital or a digit. Raises FileNotFoundError."""
    return sorted(name for name in os.listdir(path) if name != _LOCK and (name[0].isupper() or name[0].isdecimal()))


def link_files(path: Path, links: Path) -> None:
    """Create the directory ``links`` with a link to each file of the database at ``path``, if it exists."""
    make_private_directory(links, parents=True)
    if path.is_dir():
        for name in data_files(path):
            (links / name).symlink_to(path.absolute() / name)
