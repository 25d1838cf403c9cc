"""An output in several files: ``DIR/NAME/STEM000001SUFFIX`` and so on. Only the last one is appended to, until it is
full.

Once full, a file is only read. To free space, it may be moved away once a later file is durable.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from crawler.base.disk import Disk, failpoint, make_private_directory
from crawler.job.output.appended_file import AppendedFile, OutputError, Unsynced
from crawler.job.records import End, Position, file_in_output, file_number

Head = Callable[[str], bytes]


class Form(Struct, frozen=True):
    """How an output is identified: its number in a ``Position``, its directory, and the parts of its file names."""

    kind: int
    name: str
    stem: str
    suffix: str

    def path(self, job: Path, number: int) -> Path:
        """Return the path of the file with that number."""
        return job / self.name / f"{self.stem}{number:06}{self.suffix}"

    def numbers(self, job: Path) -> list[int]:
        """Return the numbers of the existing files, in order. Raises OSError."""
        pattern = re.compile(rf"{re.escape(self.stem)}([0-9]{{6,8}}){re.escape(self.suffix)}")
        directory = job / self.name
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return sorted(int(found[1]) for name in names if (found := pattern.fullmatch(name)))


class Size(NamedTuple):
    """The number of files of an output, and their bytes."""

    files: int
    bytes: int


class RotatedFiles:
    """The output of a job, opened for appending. ``head`` maps a file's name to the first bytes of the file, which
    belong to its first record."""

    def __init__(self, job: Path, form: Form, disk: Disk) -> None:
        """Open the last file, if there is one. Raises OSError."""
        self.form = form
        self.head: Head | None = None
        self.job = job
        self._disk = disk
        numbers = form.numbers(job)
        self._number = numbers[-1] if numbers else 0
        self._last = self._open(self._number) if numbers else None
        self._read: dict[int, AppendedFile | None] = {}  # opened when a job is resumed
        self._others = self._below(self._number)
        # the last process may have been killed before a sync
        self._unsynced = Unsynced(disk, job / form.name, names_changed=bool(numbers))

    @property
    def end(self) -> End:
        """The last file and its end; file 0 if there is none."""
        return End(file_number(self.form.kind, self._number), 0 if self._last is None else self._last.end)

    @property
    def size(self) -> Size:
        """The size of the output."""
        if self._last is None:
            return self._others
        return Size(self._others.files + 1, self._others.bytes + self._last.end)

    def append(self, data: bytes, file_size: int) -> tuple[Position, bytes]:
        """Append one record, to a new file if the last one has at least ``file_size`` bytes. Returns the record's
        position, and the bytes written, including the head. Raises OSError; nothing has then been written."""
        last = self._last
        if last is None or last.end >= file_size:
            last = self._begin()
        if last.end == 0 and self.head is not None:
            data = self.head(last.path.name) + data
        return last.append(data), data

    def append_at(self, file: int, start: int, data: bytes) -> None:
        """Append to the file with the number ``file``, which must end at ``start``. The next number starts the next
        file. Raises OSError, OutputError."""
        last = self._last
        if file == self.end.file + 1 and start == 0:
            last = self._begin()
        if last is None or last.number != file or last.end != start:
            raise OutputError(errno.EIO, f"{self.form.path(self.job, file_in_output(file))} does not end at {start}")
        last.append(data)

    def _below(self, most: int) -> Size:
        paths = [self.form.path(self.job, number) for number in self.form.numbers(self.job) if number < most]
        return Size(len(paths), sum(path.stat().st_size for path in paths))

    def _begin(self) -> AppendedFile:
        directory = self.job / self.form.name
        if not directory.is_dir():
            make_private_directory(directory, exist_ok=True)
            self._disk.sync_directory(self.job)
        last, begun = (
            self._last,
            AppendedFile(
                self.form.path(self.job, self._number + 1),
                self._disk,
                file_number(self.form.kind, self._number + 1),
                job=self.job,
            ),
        )
        failpoint("output.begun")
        self._unsynced.names_changed = True
        if last is not None:
            self._unsynced.files.append(last)
            self._others = Size(self._others.files + 1, self._others.bytes + last.end)
        self._last, self._number = begun, self._number + 1
        return begun

    def _open(self, number: int) -> AppendedFile:
        path, name = self.form.path(self.job, number), file_number(self.form.kind, number)
        return AppendedFile(path, self._disk, name, job=self.job, create=False)

    # -- when a job is resumed ---------------------------------------------------------------------------------

    def holds(self, position: Position) -> bool:
        """True if the output holds exactly the bytes of the record at this position."""
        file = self._file(file_in_output(position.file))
        return file is not None and file.holds(position)

    def fault(self, durable: End) -> str | None:
        """Describe the damage before the end ``durable``, in words that follow the file's name; None if no damage is
        detected. Does not read the whole file. Raises OSError."""
        number = file_in_output(durable.file)
        if not durable.offset:
            return None
        file = self._file(number)
        found = 0 if file is None else file.end
        if file is None or found < durable.offset:
            return f"has {found} bytes, but {durable.offset} were durable"
        hole = file.damage(durable.offset)
        return None if hole is None else f"is damaged at offset {hole}: durable records are missing there"

    def cut(self, end: End) -> None:
        """Make this the end of the output: truncate its file, and remove later ones. Raises OSError."""
        kept = max(0, file_in_output(end.file) if end.offset else file_in_output(end.file) - 1)
        for number in [number for number in self.form.numbers(self.job) if number > kept]:
            self._close(number)
            self._disk.unlink(self.form.path(self.job, number))
            self._unsynced.names_changed = True
        if self._number != kept:
            self._close(self._number)
            self._number = kept  # if no file has that number, the next record starts the file after it
        if end.offset:
            self._last = last = self._file(kept)
            if last is None:
                path = self.form.path(self.job, kept)
                raise OutputError(errno.ENOENT, f"{path} is missing: restore it as the crawl left it")
            last.cut(end.offset)
        self._others = self._below(kept)

    def write_again(self, durable: End) -> None:
        """Rewrite the data after the end ``durable`` (see ``AppendedFile.write_again``). Raises OSError."""
        first = file_in_output(durable.file)
        for number in range(max(1, first), self._number + 1):
            file = self._file(number)
            if file is not None:
                file.write_again(durable.offset if number == first else 0)
                if number < self._number:
                    self._unsynced.files.append(file)

    def settle(self) -> None:
        """Release the files that ``holds`` and ``fault`` opened."""
        for file in self._read.values():
            if file is not None and file is not self._last and file not in self._unsynced.files:
                file.close()
        self._read.clear()

    def _file(self, number: int) -> AppendedFile | None:
        if self._last is not None and number == self._number:
            return self._last
        if number not in self._read:
            try:
                self._read[number] = self._open(number)
            except FileNotFoundError:
                self._read[number] = None
        return self._read[number]

    def _close(self, number: int) -> None:
        if number == self._number and self._last is not None:
            self._last.close()
            self._last = None
        file = self._read.pop(number, None)
        if file is not None:
            file.close()

    # -- durability --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check that the last file was neither moved nor cut. Raises DisplacedError, OSError."""
        last = self._last
        if last is not None:
            last.look()

    def sync(self) -> None:
        """Make the appended data durable. May run in a thread during further appends, which the next call syncs.

        Raises OSError."""
        self._unsynced.sync(self._last)

    def close(self) -> None:
        """Release all files. Writes nothing."""
        self.settle()
        for file in (*self._unsynced.files, self._last):
            if file is not None:
                file.close()
