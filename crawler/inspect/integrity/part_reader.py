"""Checks the files of records as files, and compares the other outputs with the records and the journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.export.kept_parts import PartFiles, path_of
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.job.output import Record
from crawler.job.output.body_files import DIRECTORY, body_of, is_whole
from crawler.job.output.record_text import file_faults
from crawler.job.records import Position, kind_of


class _Lost(Struct):
    """The missing parts of one file: offset and owner of the first, and their number."""

    offset: int
    owner: str
    parts: int = 0


_KNOWN_MOST = 65_536  # files of bodies whose state is cached


class PartReader(PartFiles):
    """Reads the outputs of a job, and records missing parts."""

    def __init__(self, job: Path) -> None:
        super().__init__(job)
        self._lost: dict[int, _Lost] = {}  # by file
        self._bodies: dict[str, bool] = {}  # whether each of the bodies checked last is intact
        self._missed: tuple[str, str] | None = None  # the first missing or damaged body, and the URL of its record
        self._missing = 0  # records with such bodies
        self.bodies_lost = set[str]()  # names of all such bodies

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

    def findings(self) -> Iterator[Finding]:
        """Yield the missing parts and bodies since the last call, one finding per file."""
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
    """Yield the faults of the files. Raises OSError."""
    return (Finding(Kind(each.kind), each.path.name, each.details) for each in file_faults(pages))


def is_broken(pages: Path) -> bool:
    """True if records are unreadable. Raises OSError."""
    return next(file_faults(pages), None) is not None
