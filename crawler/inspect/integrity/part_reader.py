"""Checks the files of records as files, and compares the other outputs with the records and the journal."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from msgspec import Struct

from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.job.output import Record
from crawler.job.output.body_files import DIRECTORY, body_of, is_whole
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import Fault, FileFault, file_faults
from crawler.job.records import Position, file_in_output, file_number, kind_of


def positions_of(record: Record) -> list[Position]:
    """Return the positions of a page's parts from its record, without invalid ones."""
    kept = record.get("kept")
    found: list[Position] = []
    for name, at in kept.items() if isinstance(kept, dict) else ():
        if name not in OUTPUTS or not isinstance(at, list) or len(at) != 4 or not all(type(n) is int for n in at):
            continue
        number, offset, length, crc = at
        if 0 < number < 2**24 and min(offset, length, crc) >= 0 and crc < 2**32:
            found.append(Position(file_number(OUTPUTS.index(name) + 1, number), offset + length, length, crc))
    return found


def path_of(job: Path, file: int) -> Path | None:
    """Return the path of the file with that number in positions; None if the number is invalid."""
    form = FORMS.get(kind_of(file))
    return None if form is None else form.path(job, file_in_output(file))


class _Lost(Struct):
    """The missing parts of one file: offset and owner of the first, and their number."""

    offset: int
    owner: str
    parts: int = 0


_KNOWN_MOST = 65_536  # files of bodies whose state is cached


class PartReader:
    """Reads the outputs of a job, and records missing parts."""

    def __init__(self, job: Path) -> None:
        self._job = job
        self._open: dict[int, tuple[int, BinaryIO | None]] = {}  # by kind: number and stream of the last file
        self._lost: dict[int, _Lost] = {}  # by file
        self._bodies: dict[str, bool] = {}  # whether each of the bodies checked last is intact
        self._missed: tuple[str, str] | None = None  # the first missing or damaged body, and the URL of its record
        self._missing = 0  # records with such bodies
        self.bodies_lost = set[str]()  # names of all such bodies

    def __enter__(self) -> PartReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, stream in self._open.values():
            if stream is not None:
                stream.close()

    def read(self, position: Position) -> bytes | None:
        """Return the bytes of a part; None if they are missing or differ from those written. Raises OSError."""
        kind = kind_of(position.file)
        if self._open.get(kind, (None, None))[0] != position.file:
            path, (_, before) = path_of(self._job, position.file), self._open.get(kind, (0, None))
            if before is not None:
                before.close()
            stream: BinaryIO | None = None
            with contextlib.suppress(FileNotFoundError):
                stream = None if path is None else open(path, "rb")  # noqa: SIM115  # closed with the reader
            self._open[kind] = (position.file, stream)
        stream = self._open[kind][1]
        if stream is None or position.length > position.end:
            return None
        stream.seek(position.end - position.length)
        data = stream.read(position.length)
        return data if len(data) == position.length and zlib.crc32(data) == position.crc else None

    def has(self, positions: Sequence[Position]) -> bool:
        """Return True if all parts are there as written. Raises OSError."""
        return all(self.read(position) is not None for position in positions)

    def holds(self, position: Position, owner: str) -> bool:
        """Return True if the part of ``owner``, a URL, host or visit, is there as written. Raises OSError."""
        if self.read(position) is not None:
            return True
        self._lost.setdefault(position.file, _Lost(position.end - position.length, owner)).parts += 1
        return False

    def holds_body(self, record: Record) -> bool:
        """Return True if the record has no body, or its body is intact. Raises OSError."""
        name = body_of(record)
        if name is None:
            return True
        whole = self._bodies.pop(name, None)
        if whole is None:
            whole = is_whole(self._job, name)
        self._bodies[name] = whole
        if len(self._bodies) > _KNOWN_MOST:
            del self._bodies[next(iter(self._bodies))]
        if not whole:
            self._missed = self._missed or (name, str(record["url"]))
            self._missing += 1
            self.bodies_lost.add(name)
        return whole

    def findings(self, *, mends: bool = False) -> Iterator[Finding]:
        """Yield the missing parts and bodies since the last call, one finding per file."""
        for file, lost in sorted(self._lost.items()):
            path = path_of(self._job, file)
            place = OUTPUTS[kind_of(file) - 1] if path is None else str(path.relative_to(self._job))
            details: dict[str, Detail] = {"offset": lost.offset, "of": lost.owner, "parts": lost.parts}
            yield Finding(Kind.PARTS_LOST, place, details, mends=mends)
        self._lost.clear()
        if self._missed is not None:
            name, owner = self._missed
            yield Finding(
                Kind.BODIES_LOST, DIRECTORY, {"file": name, "of": owner, "bodies": self._missing}, mends=mends
            )
        self._missed, self._missing = None, 0


MOVED = frozenset({Kind.FILE_LOST, Kind.FILE_CUT})  # faults that change the offsets of later records
_KINDS = {
    Fault.LOST: Kind.FILE_LOST,
    Fault.CUT: Kind.FILE_CUT,
    Fault.FRAME: Kind.FRAME_DAMAGED,
    Fault.TABLE: Kind.TABLE_LOST,
}


def file_findings(pages: Path) -> Iterator[Finding]:
    """Yield the faults of the files. Raises OSError."""
    for each in file_faults(pages):
        yield Finding(_KINDS[each.fault], each.path.name, _details(each))


def _details(fault: FileFault) -> dict[str, Detail]:
    match fault.fault:
        case Fault.CUT:
            return {"offset": fault.offset}
        case Fault.FRAME:
            return {"offset": fault.offset, "bytes": fault.size}
    return {}


def is_broken(pages: Path) -> bool:
    """True if records are unreadable. Raises OSError."""
    return next(file_faults(pages), None) is not None
