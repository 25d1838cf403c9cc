"""Keeps what a repair replaces, so that nothing damaged is ever destroyed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from crawler.base.disk import Appender, Disk, make_private_directory
from crawler.base.kv import Family

PREFIX = "damaged-"
ROWS = "rows.jsonl"


class Quarantine:
    """``DIR/damaged-N`` with the first free number. The directory is created when it is first needed."""

    def __init__(self, job: Path, disk: Disk) -> None:
        self._job = job
        self._disk = disk
        taken = [int(name) for path in job.glob(f"{PREFIX}*") if (name := path.name[len(PREFIX) :]).isdecimal()]
        self.path = job / f"{PREFIX}{max(taken, default=0) + 1}"
        self._rows = b""

    def made(self) -> Path:
        """Create the directory if needed and return it. Raises OSError."""
        if not self.path.is_dir():
            make_private_directory(self.path)
            self._disk.sync_directory(self._job)
        return self.path

    def move(self, path: Path) -> None:
        """Move a file or directory of the job there, under its name. Raises OSError."""
        self._disk.move(path, self.made() / path.name)
        # Sync the new name first: with neither name on disk, it would be lost.
        self._disk.sync_directory(self.path)
        self._disk.sync_directory(path.parent)

    def link(self, path: Path) -> None:
        """Give a file of the job a second name there, so that it survives a rename over the first one. Raises
        OSError."""
        self._disk.link(path, self.made() / path.name)
        self._disk.sync_directory(self.path)

    def copy(self, path: Path) -> None:
        """Copy a file there that is about to be changed in place. Raises OSError."""
        file = self._disk.open(self.made() / path.name, create=True)
        try:
            file.truncate(0)
            with open(path, "rb") as stream:
                shutil.copyfileobj(stream, Appender(file))
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(self.path)

    def keep_row(self, family: Family, key: bytes, value: bytes) -> None:
        """Remember a row of the store that will be deleted. ``flush`` writes it."""
        row = {"family": family.value, "key": key.hex(), "value": value.hex()}
        self._rows += json.dumps(row).encode("ascii") + b"\n"

    def flush(self) -> None:
        """Write the remembered rows. Raises OSError."""
        if not self._rows:
            return
        file = self._disk.open(self.made() / ROWS, create=True)
        try:
            file.pwrite(self._rows, file.size())
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(self.path)
        self._rows = b""
