"""Copies a database that no process has open: tables are hard-linked, all other files are copied."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from crawler.base.disk import make_private_directory


def copy_closed(path: Path, to: Path) -> None:
    """Create the directory ``to``, on the same file system, with the files of the database at ``path``, if it exists.

    Nothing is made durable. Raises OSError."""
    make_private_directory(to)
    for source in path.iterdir() if path.is_dir() else ():
        # Tables are never changed in place, so a hard link is enough.
        if source.suffix == ".sst":
            os.link(source, to / source.name)
        elif source.is_file() and source.name != "LOCK":
            shutil.copyfile(source, to / source.name)
