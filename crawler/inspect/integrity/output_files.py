"""Makes the outputs besides ``pages.jsonl`` contain exactly the parts of the kept records.

A file with other bytes is not changed: the parts of kept records are copied to new files, and the old file is moved
away once nothing refers to it. So an interrupted repair leaves either the old or the new files in use, and the next
repair moves the others away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from crawler.base.disk import Disk, make_private_directory
from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.export.kept_parts import path_of, positions_of
from crawler.inspect.integrity.part_reader import PartReader
from crawler.job.output import record_of
from crawler.job.output.outputs import FORMS, empty
from crawler.job.output.rotated_files import RotatedFiles
from crawler.job.records import (
    AsideDone,
    End,
    JournalError,
    Position,
    decode_aside,
    decode_ends,
    encode_aside,
    encode_ends,
    file_in_output,
    file_number,
    kind_of,
)
from crawler.job.transaction import OUTPUT_ENDS

PREFIX = "damaged-"
_FILE_SIZE = 2**30


class Quarantine:
    """Keeps everything that a repair replaces, so that nothing is destroyed: ``DIR/damaged-N`` with the first free
    number, which is created on first use."""

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


class OutputFiles:
    """The outputs of a job under repair. ``asides_lost`` are the owners of asides with a missing part."""

    def __init__(self, job: Path, store: Reader, disk: Disk, quarantine: Quarantine) -> None:
        self.asides_lost = set[bytes]()
        self._job = job
        self._store = store
        self._disk = disk
        self._quarantine = quarantine
        self._stale: set[int] = set()  # files with bytes that no record refers to
        self._new: dict[int, RotatedFiles] = {}  # by kind
        self._ends: dict[int, End] = {}

    @property
    def names(self) -> list[str]:
        """The outputs with files to be moved away."""
        return sorted({OUTPUTS[kind_of(file) - 1] for file in self._stale})

    def files(self, name: str) -> int:
        """Return the number of files of an output to be moved away."""
        return sum(OUTPUTS[kind_of(file) - 1] == name for file in self._stale)

    def look(self, lines: Iterable[bytes]) -> None:
        """Compare the files with the kept records. Raises OSError."""
        numbers = {kind: form.numbers(self._job) for kind, form in FORMS.items()}
        stored = self._stored_ends()
        covered = Counter[int]()
        for line in lines:
            for position in positions_of(record_of(line) or {}):
                covered[position.file] += position.length
        with PartReader(self._job) as reader:
            for _, aside in self._asides():
                if reader.has(aside.positions):
                    for position in aside.positions:
                        covered[position.file] += position.length
                else:
                    self.asides_lost.add(aside.owner.encode("ascii"))
        for kind, found in numbers.items():
            end = stored.get(kind)
            for number in found:
                file = file_number(kind, number)
                size = FORMS[kind].path(self._job, number).stat().st_size
                if end is not None and file == end.file:
                    size = min(size, end.offset)  # the next run cuts off the rest
                if covered[file] != size or size == 0:
                    self._stale.add(file)
                else:
                    self._ends[kind] = End(file, size)
            if found or end is not None:
                self._ends.setdefault(kind, empty(kind))

    def moved(self, line: bytes, reader: PartReader) -> bytes:
        """Return the line of a kept record, with the final positions of its parts. Raises OSError."""
        record = record_of(line)
        positions = positions_of(record or {})
        if record is None or not any(position.file in self._stale for position in positions):
            return line
        places = {OUTPUTS[kind_of(old.file) - 1]: self._copy(old, reader) for old in positions}
        record["kept"] = {name: _place(position) for name, position in places.items()}
        return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"

    def settle(self, batch: Batch) -> None:
        """Add the ends of all outputs and the remaining asides to the batch of a new store; the new files are then
        durable. Raises OSError."""
        with PartReader(self._job) as reader:
            for key, aside in self._asides():
                if reader.has(aside.positions):
                    positions = tuple([self._copy(position, reader) for position in aside.positions])
                    batch.put(Family.ASIDES, key, encode_aside(AsideDone(aside.owner, positions)))
        self.sync()
        self._ends.update((kind, output.end) for kind, output in self._new.items())
        if self._ends:
            batch.put(Family.META, OUTPUT_ENDS, encode_ends(list(self._ends.values())))

    def move_away(self) -> None:
        """Move unreferenced files to the quarantine. Raises OSError."""
        for file in sorted(self._stale):
            path = path_of(self._job, file)
            if path is not None and path.exists():
                self._quarantine.move(path)

    def sync(self) -> None:
        """Make the new files durable. Raises OSError."""
        for output in self._new.values():
            output.sync()

    def close(self) -> None:
        for output in self._new.values():
            output.close()

    def _copy(self, position: Position, reader: PartReader) -> Position:
        if position.file not in self._stale:
            return position
        data, kind = reader.read(position), kind_of(position.file)
        assert data is not None, "a record that stays has its parts"
        if kind in self._new:
            return self._new[kind].append(data, _FILE_SIZE)[0]
        new = self._new[kind] = RotatedFiles(self._job, FORMS[kind], self._disk)
        return new.append(data, 0)[0]  # in a file of its own

    def _asides(self) -> list[tuple[bytes, AsideDone]]:
        found: list[tuple[bytes, AsideDone]] = []
        for key, value in self._store.rows(Family.ASIDES):
            try:
                found.append((key, decode_aside(value)))
            except JournalError:
                continue  # removed with the other damaged rows
        return found

    def _stored_ends(self) -> dict[int, End]:
        try:
            return decode_ends(self._store.get(Family.META, OUTPUT_ENDS))
        except JournalError:
            return {}


def _place(position: Position) -> list[int]:
    return [file_in_output(position.file), position.end - position.length, position.length, position.crc]
