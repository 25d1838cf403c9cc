"""The parts of pages that an output keeps, read by the positions in their records: exactly those that belong to records
that no crash can undo, in order. If a part was extracted again later, the new one replaces the one named by the
record."""

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
    """Return, by kind, where each output besides ``pages.jsonl`` that the job has ever had ends. Raises JobError,
    OSError and JournalError."""
    with open_job(directory) as job:
        return decode_ends(job.store.get(Family.META, OUTPUT_ENDS))


class PartPlace(NamedTuple):
    """The place of a part: the number of the file, and the offset, length and CRC-32 of its bytes."""

    file: int
    offset: int
    length: int
    crc: int


def place_of(position: Position) -> PartPlace:
    """Return the place of a part in its output."""
    file, end, length, crc = position
    return PartPlace(file_in_output(file), end - length, length, crc)


Remade = Mapping[tuple[int, int], PartPlace]  # by the kind of the output and the hash of the visit's name


def remade_parts(store: Reader) -> Remade:
    """Return the places of parts that were extracted again. Raises JournalError."""
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


# By output: True if a page that was finished with the output has a part in it.
_HAS_PART: dict[str, Callable[[Record], bool]] = {
    "links": lambda record: _is_page(record) and bool(record["links"]),
    "text": _has_text,
    "structured": _has_text,
    "warc": lambda record: False,
}
_REMADE = ("text", "structured")  # outputs whose parts may be extracted again


class KeptParts:
    """The parts of one output. ``missing`` counts pages without their part: they were finished without the output, or
    the file was moved away."""

    def __init__(self, directory: Path, name: str, remade: Remade | None = None) -> None:
        """``remade``: the result of ``remade_parts`` for the job's store, if that is open."""
        self._remade = remade
        self._directory = directory
        self._form = _FORMS[name]
        self._number: int | None = None
        self._file: BinaryIO | None = None
        self.missing = 0

    def __enter__(self) -> Self:
        """Load the remade parts. Raises JobError, OSError and JournalError."""
        if self._remade is None and self._form.name in _REMADE:
            with open_job(self._directory) as job:
                self._remade = remade_parts(job.store)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def in_use(self) -> bool:
        """True if the job has kept any part in this output, even if its files are gone. Raises JobError, OSError and
        JournalError."""
        return self._form.kind in ends_of_outputs(self._directory)

    def of(self, record: Record) -> bytes:
        """Return the kept part of the page; empty if there is none, or if its file does not exist. Raises OSError, and
        JournalError if the bytes have changed."""
        kept = record.get("kept")
        told = kept.get(self._form.name) if isinstance(kept, dict) else None
        place = (self._remade or {}).get((self._form.kind, hash(visit_name(record["url"], record["fetched_at"]))))
        if place is None and told is None:
            self.missing += _HAS_PART[self._form.name](record)
            return b""
        return self.read(place or self._told(record, told))

    def read(self, place: PartPlace) -> bytes:
        """Return the part at that place; empty if the file does not exist. Raises the same errors as ``of``."""
        file = self._open(place.file)
        if file is None:
            self.missing += 1
            return b""
        file.seek(place.offset)
        data = file.read(place.length)
        if len(data) != place.length or zlib.crc32(data) != place.crc:
            raise JournalError(f"{file.name}: offset {place.offset}: not the kept part of a page; run `crawler verify`")
        return data

    def _told(self, record: Record, told: object) -> PartPlace:
        """Return the place that a record names. Raises JournalError."""
        if not isinstance(told, list) or len(told) != 4 or not all(type(each) is int and each >= 0 for each in told):
            raise JournalError(f"{PAGES}: the record of {record['url']} lacks the place of its {self._form.name}")
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
