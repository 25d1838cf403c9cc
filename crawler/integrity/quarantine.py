"""Where a repair puts what it replaces: nothing damaged is ever destroyed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from crawler.disk import Appender, Disk
from crawler.kv import Family

PREFIX = "damaged-"
ROWS = "rows.jsonl"


class Quarantine:
    """``DIR/damaged-N``, of the first number that is free; made when something is put there."""

    def __init__(self, job: Path, disk: Disk) -> None:
        self._job = job
        self._disk = disk
        taken = [int(name) for path in job.glob(f"{PREFIX}*") if (name := path.name[len(PREFIX) :]).isdecimal()]
        self.path = job / f"{PREFIX}{max(taken, default=0) + 1}"
        self._rows = b""

    def made(self) -> Path:
        """The directory, which is then there. Raises OSError."""
        if not self.path.is_dir():
            self.path.mkdir()
            self._disk.sync_directory(self._job)
        return self.path

    def move(self, path: Path) -> None:
        """Put a file or directory of the job there, under its name. Raises OSError."""
        self._disk.move(path, self.made() / path.name)
        # Its new name first: without either name it would be gone.
        self._disk.sync_directory(self.path)
        self._disk.sync_directory(path.parent)

    def link(self, path: Path) -> None:
        """Give a file of the job a second name there: what is renamed over it then destroys nothing. Raises OSError."""
        self._disk.link(path, self.made() / path.name)
        self._disk.sync_directory(self.path)

    def copy(self, path: Path) -> None:
        """Put a copy there of a file that is about to be changed in its place. Raises OSError."""
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
        """Remember a row of the store that is to be deleted; written with ``flush``."""
        row = {"family": family.value, "key": key.hex(), "value": value.hex()}
        self._rows += json.dumps(row).encode("ascii") + b"\n"

    def flush(self) -> None:
        """Write the rows that were kept. Raises OSError."""
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
