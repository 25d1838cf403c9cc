"""Reads the parts of pages that an output keeps, by the positions given in the pages' records. Only the parts of
records that no crash can undo are read, in order. If a part has been extracted again since, the new part is read
instead of the one named in the record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import OUTPUTS
from crawler.inspect.job_reader import open_job
from crawler.job.directory import PAGES
from crawler.job.output import Record
from crawler.job.output.outputs import FORMS
from crawler.job.records import (
    End,
    JournalError,
    Outcome,
    Position,
    decode_aside,
    decode_ends,
    file_in_output,
    file_number,
    kind_of,
    visit_name,
)
from crawler.job.transaction import OUTPUT_ENDS

_FORMS = {form.name: form for form in FORMS.values()}


def ends_of_outputs(directory: Path) -> dict[int, End]:
    """Return the end position of every output that the job has ever had, except ``pages.jsonl``, by kind. Raises
    JobError, OSError and JournalError."""
    with open_job(directory) as job:
        return decode_ends(job.store.get(Family.META, OUTPUT_ENDS))


Remade = Mapping[tuple[int, int], Position]  # by the kind of the output and the hash of the visit's name


def remade_parts(store: Reader) -> Remade:
    """Return the new positions of parts that have been extracted again. Raises JournalError."""
    found = dict[tuple[int, int], Position]()
    for aside in (decode_aside(value) for _, value in store.rows(Family.ASIDES)):
        for position in aside.positions if aside.is_of_page else ():
            found[kind_of(position.file), hash(aside.owner)] = position
    return found


def _is_page(record: Record) -> bool:
    good = record["outcome"] == Outcome.FETCHED and not record.get("probe")
    return good and record.get("content_type") in ("text/html", "application/xhtml+xml")


def _has_text(record: Record) -> bool:
    return _is_page(record) and str(record["status"]).startswith("2")


# By output: whether a record's page always has a part in it if the job kept the output when it finished the page.
_HAS_PART: dict[str, Callable[[Record], bool]] = {
    "links": lambda record: _is_page(record) and bool(record["links"]),
    "text": _has_text,
    "structured": _has_text,
}
_REMADE = ("text", "structured")  # outputs whose parts may be extracted again


def positions_of(record: Record) -> list[Position]:
    """Return the positions that a page's record gives for its parts, without invalid ones."""
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
    """Return the path of the file with the number ``file`` in positions; None if the number is invalid."""
    form = FORMS.get(kind_of(file))
    return None if form is None else form.path(job, file_in_output(file))


class PartFiles:
    """Reads parts of the outputs of a job by their positions. In each output, the file read last stays open."""

    def __init__(self, job: Path) -> None:
        self._job = job
        self._open: dict[int, tuple[int, BinaryIO | None]] = {}  # by kind: number and stream of the file read last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
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
        return data if position.is_of(data) else None

    def has(self, positions: Sequence[Position]) -> bool:
        """Return True if all parts at these positions are there and unchanged. Raises OSError."""
        return all(self.read(position) is not None for position in positions)


class KeptParts:
    """The parts of one output. ``missing`` counts the pages without a part: the job did not keep the output when it
    finished them, or the file was moved away."""

    def __init__(self, directory: Path, name: str, remade: Remade | None = None) -> None:
        """``remade``: the result of ``remade_parts``, if the caller has the job's store open."""
        self._remade = remade
        self._directory = directory
        self._form = _FORMS[name]
        self._files = PartFiles(directory)
        self.missing = 0

    def __enter__(self) -> Self:
        """Load the positions of the remade parts. Raises JobError, OSError and JournalError."""
        if self._remade is None and self._form.name in _REMADE:
            with open_job(self._directory) as job:
                self._remade = remade_parts(job.store)
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def in_use(self) -> bool:
        """True if the job has kept any part in this output, even if its files are gone. Raises JobError, OSError and
        JournalError."""
        return self._form.kind in ends_of_outputs(self._directory)

    def of(self, record: Record) -> bytes:
        """Return the kept part of the page; empty if there is none, or if its file does not exist. Raises OSError, and
        JournalError if the bytes have changed."""
        kept, kind = record.get("kept"), self._form.kind
        position = (self._remade or {}).get((kind, hash(visit_name(record["url"], record["fetched_at"]))))
        position = position or next((each for each in positions_of(record) if kind_of(each.file) == kind), None)
        if position is not None:
            return self.read(position)
        if isinstance(kept, dict) and self._form.name in kept:
            raise JournalError(f"{PAGES}: the record of {record['url']} lacks the place of its {self._form.name}")
        has_part = _HAS_PART.get(self._form.name)
        self.missing += has_part is not None and has_part(record)
        return b""

    def read(self, position: Position) -> bytes:
        """Return the part at that position; empty if the file does not exist. Raises OSError, and JournalError if the
        bytes have changed."""
        data = self._files.read(position)
        if data is None:
            path, offset = path_of(self._directory, position.file), position.end - position.length
            if path is not None and path.exists():
                raise JournalError(f"{path}: offset {offset}: not the kept part of a page; run `crawler verify`")
            self.missing += 1
        return data or b""
