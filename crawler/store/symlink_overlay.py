"""A directory of links to a database's files: what is written beside them does not reach the database."""

from __future__ import annotations

import os
from pathlib import Path

_LOCK = "LOCK"


def data_files(path: Path) -> list[str]:
    """The names of a database's own files, which all begin with a capital or a number. Raises FileNotFoundError."""
    return sorted(name for name in os.listdir(path) if name != _LOCK and (name[0].isupper() or name[0].isdecimal()))


def link_files(path: Path, links: Path) -> None:
    """Make ``links`` with one link to each file of the database at ``path``; none where there is no database."""
    links.mkdir(parents=True)
    if path.is_dir():
        for name in data_files(path):
            (links / name).symlink_to(path.absolute() / name)
