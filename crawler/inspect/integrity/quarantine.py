"""Keeps everything that a repair replaces, so that nothing is destroyed."""

from __future__ import annotations

from pathlib import Path

from crawler.base.disk import Disk, make_private_directory

PREFIX = "damaged-"


class Quarantine:
    """``DIR/damaged-N`` with the first free number. The directory is created on first use."""

    def __init__(self, job: Path, disk: Disk) -> None:
        self._job = job
        self._disk = disk
        taken = [int(name) for path in job.glob(f"{PREFIX}*") if (name := path.name[len(PREFIX) :]).isdecimal()]
        self.path = job / f"{PREFIX}{max(taken, default=0) + 1}"

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
