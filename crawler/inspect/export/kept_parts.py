"""What an output keeps of pages, read by the positions in their records: so exactly what belongs to records that no
crash can undo, in their order. What was made again of a page later takes the place of what its record names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from crawler.base.kv import Family, Reader
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
    kind_of,
    visit_name,
)
from crawler.job.transaction import OUTPUT_ENDS

_FORMS = {form.name: form for form in FORMS.values()}


def ends_of_outputs(directory: Path) -> dict[int, End]:
    """Where the outputs besides ``pages.jsonl`` end that the job has ever had, by their kinds. Raises JobError, OSError
    and JournalError."""
    with open_job(directory) as job:
        return decode_ends(job.store.get(Family.META, OUTPUT_ENDS))


class PartPlace(NamedTuple):
    """Where a part is: the number of the file, and the offset, length and CRC-32 of its bytes."""

    file: int
    offset: int
    length: int
    crc: int


def place_of(position: Position) -> PartPlace:
    """The place of a part in its output."""
    file, end, length, crc = position
    return PartPlace(file_in_output(file), end - length, length, crc)


Remade = Mapping[tuple[int, int], PartPlace]  # by the kind of the output and the hash of the visit's name


def remade_parts(store: Reader) -> Remade:
    """Where the parts are that were made again of pages. Raises JournalError."""
    found = dict[tuple[int, int], PartPlace]()
    for aside in (decode_aside(value) for _, value in store.rows(Family.ASIDES)):
        for position in aside.positions if aside.is_of_page else ():
            found[kind_of(position.file), hash(aside.owner)] = place_of(position)
    return found


def _is_page(record: Record) -> bool:
    good = record["outcome"] == Outcome.FETCHED and not record.get("probe")
    return good and record.get("content_type") in ("text/html", "application/xhtml+xml")


def _has_text(record: Record) -> bool:
    return _is_page(record) and str(record["status"]).startswith("2")


# Whether an output has a part of a page that was finished with it.
_HAS_PART: dict[str, Callable[[Record], bool]] = {
    "links": lambda record: _is_page(record) and bool(record["links"]),
    "text": _has_text,
    "structured": _has_text,
    "warc": lambda record: False,
}
_REMADE = ("text", "structured")  # outputs that have parts that were made again


class KeptParts:
    """The parts of one output. ``missing`` counts the pages that lack theirs: they were finished without the output, or
    the file is not there, because it was moved away."""

    def __init__(self, directory: Path, name: str, remade: Remade | None = None) -> None:
        """``remade``: what ``remade_parts`` finds in the store of the job, if that is open."""
        self._remade = remade
        self._directory = directory
        self._form = _FORMS[name]
        self._number: int | None = None
        self._file: BinaryIO | None = None
        self.missing = 0

    def __enter__(self) -> Self:
        """Raises JobError, OSError and JournalError."""
        if self._remade is None and self._form.name in _REMADE:
            with open_job(self._directory) as job:
                self._remade = remade_parts(job.store)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def in_use(self) -> bool:
        """Whether the job has kept anything in this output, even if its files are gone. Raises JobError, OSError and
        JournalError."""
        return self._form.kind in ends_of_outputs(self._directory)

    def of(self, record: Record) -> bytes:
        """What is kept of the page; empty if nothing is, or if its file is not there. Raises OSError, and JournalError
        if the bytes are not those that were kept."""
        kept = record.get("kept")
        told = kept.get(self._form.name) if isinstance(kept, dict) else None
        place = (self._remade or {}).get((self._form.kind, hash(visit_name(record["url"], record["fetched_at"]))))
        if place is None and told is None:
            self.missing += _HAS_PART[self._form.name](record)
            return b""
        return self.read(place or self._told(record, told))

    def read(self, place: PartPlace) -> bytes:
        """What is kept there; empty if the file is not there. Raises as ``of`` does."""
        file = self._open(place.file)
        if file is None:
            self.missing += 1
            return b""
        file.seek(place.offset)
        data = file.read(place.length)
        if len(data) != place.length or zlib.crc32(data) != place.crc:
            raise JournalError(f"{file.name}: offset {place.offset}: not what was kept of a page; run `crawler verify`")
        return data

    def _told(self, record: Record, told: object) -> PartPlace:
        """The place that a record names. Raises JournalError."""
        if not isinstance(told, list) or len(told) != 4 or not all(type(each) is int and each >= 0 for each in told):
            raise JournalError(f"{PAGES}: the record of {record['url']} does not say where its {self._form.name} are")
        return PartPlace(*told)

    def _open(self, number: int) -> BinaryIO | None:
        if number != self._number:
            if self._file is not None:
                self._file.close()
            try:
                self._file = open(self._form.path(self._directory, number), "rb")  # noqa: SIM115 (closed at the end)
            except FileNotFoundError:
                self._file = None
            self._number = number
        return self._file
