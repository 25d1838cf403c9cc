"""What outputs besides ``pages.jsonl`` hold, compared with what records and journal say of it."""

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
from crawler.job.records import Position, file_in_output, file_number, kind_of


def positions_of(record: Record) -> list[Position]:
    """The positions of the parts of a page, as its record names them; those that cannot be are left out."""
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
    """The file with that number in positions; None if there can be none."""
    form = FORMS.get(kind_of(file))
    return None if form is None else form.path(job, file_in_output(file))


class _Lost(Struct):
    """What one file lacks: where the first part was and whose it is, and how many there were."""

    offset: int
    owner: str
    parts: int = 0


_KNOWN_MOST = 65_536  # files of bodies that are known to be whole


class PartReader:
    """Reads the outputs of a job, and remembers what they lack."""

    def __init__(self, job: Path) -> None:
        self._job = job
        self._open: dict[int, tuple[int, BinaryIO | None]] = {}  # by kind: the number of the last file, and the file
        self._lost: dict[int, _Lost] = {}  # by file
        self._bodies: dict[str, bool] = {}  # whether each is whole, of those that were asked for last
        self._missed: tuple[str, str] | None = None  # the first body that is not, and the URL of its record
        self._missing = 0  # records whose bodies are not
        self.bodies_lost = set[str]()  # the names of all that are not

    def __enter__(self) -> PartReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, stream in self._open.values():
            if stream is not None:
                stream.close()

    def read(self, position: Position) -> bytes | None:
        """The bytes of a part; None if they are not there as they were written. Raises OSError."""
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
        """Whether all are there as they were written. Raises OSError."""
        return all(self.read(position) is not None for position in positions)

    def holds(self, position: Position, owner: str) -> bool:
        """Whether the part of ``owner``, a URL, a host or a visit, is there as it was written. Raises OSError."""
        if self.read(position) is not None:
            return True
        self._lost.setdefault(position.file, _Lost(position.end - position.length, owner)).parts += 1
        return False

    def holds_body(self, record: Record) -> bool:
        """Whether the body is there that a record names, if it names one. Raises OSError."""
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
        """What the outputs lacked since the last call, a finding a file."""
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
