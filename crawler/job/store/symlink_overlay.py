"""A directory of links to a database's files. Files created next to the links do not reach the database."""

from __future__ import annotations

import os
from pathlib import Path

from crawler.base.disk import make_private_directory

_LOCK = "LOCK"


def data_files(path: Path) -> list[str]:
    """Return the names of a database's own files, which start with a capital or a digit. Raises FileNotFoundError."""
    return sorted(name for name in os.listdir(path) if name != _LOCK and (name[0].isupper() or name[0].isdecimal()))


def link_files(path: Path, links: Path) -> None:
    """Create the directory ``links`` with a link to each file of the database at ``path``, if it exists."""
    make_private_directory(links, parents=True)
    if path.is_dir():
        for name in data_files(path):
            (links / name).symlink_to(path.absolute() / name)
