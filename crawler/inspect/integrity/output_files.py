"""Checks that the files of records are readable, and compares all other outputs with the records and the journal.

After a repair, the outputs besides ``pages.jsonl`` contain exactly the parts of the kept records. A file that also
contains other bytes is not changed: the parts of kept records are copied from it to new files, and the old file is
moved away once nothing refers to it. So after an interrupted repair, either the old or the new files are in use, and
the next repair moves away those not in use.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import Disk, make_private_directory
from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.export.kept_parts import PartFiles, path_of, positions_of
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.job.output import Record, record_of
from crawler.job.output.body_files import DIRECTORY, body_of, is_whole
from crawler.job.output.outputs import FORMS, empty
from crawler.job.output.record_text import file_faults
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


class _Lost(Struct):
    """The missing parts of one file: the offset and owner of the first one, and the number of missing parts."""

    offset: int
    owner: str
    parts: int = 0


_KNOWN_MOST = 65_536  # maximum number of body files whose state is cached


class PartReader(PartFiles):
    """Reads the outputs of a job, and records missing parts."""

    def __init__(self, job: Path) -> None:
        super().__init__(job)
        self._lost: dict[int, _Lost] = {}  # by file
        self._is_whole = lru_cache(_KNOWN_MOST)(partial(is_whole, job))
        self._missed: tuple[str, str] | None = None  # the first missing or damaged body, and the URL of its record
        self._missing = 0  # number of records with a missing or damaged body
        self.bodies_lost = set[str]()  # names of all missing or damaged bodies

    def holds(self, position: Position, owner: str) -> bool:
        """Return True if the part is there and unchanged. It belongs to ``owner``: a URL, host or visit. Raises
        OSError."""
        if self.read(position) is not None:
            return True
        self._lost.setdefault(position.file, _Lost(position.end - position.length, owner)).parts += 1
        return False

    def holds_body(self, record: Record) -> bool:
        """Return True if the record has no body, or its body is intact. Raises OSError."""
        name = body_of(record)
        if name is None:
            return True
        if self._is_whole(name):
            return True
        self._missed = self._missed or (name, str(record["url"]))
        self._missing += 1
        self.bodies_lost.add(name)
        return False

    def findings(self) -> Iterator[Finding]:
        """Yield the missing parts and bodies found since the last call, one finding per file."""
        for file, lost in sorted(self._lost.items()):
            path = path_of(self._job, file)
            place = OUTPUTS[kind_of(file) - 1] if path is None else str(path.relative_to(self._job))
            details: dict[str, Detail] = {"offset": lost.offset, "of": lost.owner, "parts": lost.parts}
            yield Finding(Kind.PARTS_LOST, place, details)
        self._lost.clear()
        if self._missed is not None:
            name, owner = self._missed
            yield Finding(Kind.BODIES_LOST, DIRECTORY, {"file": name, "of": owner, "bodies": self._missing})
        self._missed, self._missing = None, 0


MOVED = frozenset({Kind.FILE_LOST, Kind.FILE_CUT})  # faults that change the offsets of later records


def file_findings(pages: Path) -> Iterator[Finding]:
    """Yield the faults found in the files of records. Raises OSError."""
    return (Finding(Kind(each.kind), each.path.name, each.details) for each in file_faults(pages))


def is_broken(pages: Path) -> bool:
    """True if records are unreadable. Raises OSError."""
    return next(file_faults(pages), None) is not None


PREFIX = "damaged-"
_FILE_SIZE = 2**30


class Quarantine:
    """Keeps everything that a repair replaces in ``DIR/damaged-N``, so that nothing is destroyed. N is one more than
    the highest number in use. The directory is created on first use."""

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
        """Move a file or directory of the job to the quarantine, where it keeps its name. Raises OSError."""
        self._disk.move(path, self.made() / path.name)
        # Sync the new name before the removal of the old one: if the disk had neither, the file would be lost.
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
        """The names of the outputs that have files to be moved away."""
        return sorted({OUTPUTS[kind_of(file) - 1] for file in self._stale})

    def files(self, name: str) -> int:
        """Return the number of an output's files that are to be moved away."""
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
                    size = min(size, end.offset)  # the next run cuts off what follows
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
        """Make the new files durable, and add the ends of all outputs and the remaining asides to the batch of a new
        store. Raises OSError."""
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
        return new.append(data, 0)[0]  # the first part copied goes to a new file

    def _asides(self) -> list[tuple[bytes, AsideDone]]:
        found: list[tuple[bytes, AsideDone]] = []
        for key, value in self._store.rows(Family.ASIDES):
            try:
                found.append((key, decode_aside(value)))
            except JournalError:
                continue  # the repair removes this row with the other damaged ones
        return found

    def _stored_ends(self) -> dict[int, End]:
        try:
            return decode_ends(self._store.get(Family.META, OUTPUT_ENDS))
        except JournalError:
            return {}


def _place(position: Position) -> list[int]:
    return [file_in_output(position.file), position.end - position.length, position.length, position.crc]
