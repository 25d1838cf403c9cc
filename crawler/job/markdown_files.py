"""The Markdown of pages as files, one for each page, derived from the rows of the text output.

    TARGET/.cursor             which rows were read: an envelope
    TARGET/index.jsonl         a line for each file
    TARGET/example.org/a.md    the page: ``output.markdown_names`` says where

Rows are taken in batches. The files of a batch are made durable, then the index, then the cursor: after a kill, the
rows of the batch are read again. A file that exists already may have a line in the index: so the index is written again
without the lines of such files, before their new ones. Memory holds the names of one batch.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from crawler.base.disk import RealDisk, make_private_directory, private_opener, replace_file
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.directory import JobError
from crawler.job.identity import Identity
from crawler.job.output.markdown_names import INDEX, file_of
from crawler.job.output.outputs import FORMS
from crawler.job.output.rotated_files import Size
from crawler.job.records import End, file_in_output

DIRECTORY = "markdown"
CURSOR = ".cursor"
MAGIC = "crawler-markdown"
VERSION = 1
TEXT = FORMS[3]
_ROWS = 2_000  # of a batch
_ROW_MOST = 2**26  # bytes: of a hole in a file, no more is read
_MARK = 16  # bytes
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class Place(NamedTuple):
    """The row that was read last: the number of its file, its start and end there, and a hash of its bytes."""

    file: int
    start: int
    end: int
    mark: str


class Cursor(Struct):
    """What ``.cursor`` says. ``job``: whose rows they are. ``files``, ``bytes``: how many files there are, and their
    size; ``index``: the size of the index with the lines of these. ``places``: by source, one or the partitions."""

    job: str
    files: int = 0
    bytes: int = 0
    index: int = 0
    places: dict[str, Place] = field(default_factory=dict)


class Source(NamedTuple):
    """A job whose rows are taken up to ``end``, which no crash cuts off. ``name`` tells it from the others."""

    name: str
    job: Path
    end: End


class Row(Struct):
    """What is used of a row."""

    url: str
    fetched_at: str
    title: str | None = None
    language: str | None = None
    detected_language: str | None = None
    extractor: str | None = None
    markdown: str | None = None
    gone: bool = False


class Line(Struct, omit_defaults=True):
    """A line of the index."""

    url: str
    file: str
    title: str | None = None
    fetched_at: str = ""
    bytes: int = 0


_HEAD = ("url", "title", "fetched_at", "language", "detected_language", "extractor")
_row_of = msgspec.json.Decoder(Row).decode
_line_of = msgspec.json.Decoder(Line).decode


def name_of_job(identity: Identity) -> str:
    """What tells the job from others, and its secret to nobody."""
    return identity.hash.digest_keys([DIRECTORY]).hex()


def derive(target: Path, job: str, sources: Iterable[Source], is_enough: Callable[[], bool] = lambda: False) -> Size:
    """Bring the files in ``target`` up to date, until ``is_enough`` says so between two batches. ``job`` names the job
    or crawl. Returns how many files there are, and their bytes. Raises JobError if the target is no place for them or
    the rows are damaged, OSError."""
    with _opened(target, job) as cursor:
        for source in sources:
            rows = _rows(source, cursor.places.get(source.name))
            while not is_enough():
                batch = _Batch(target)
                for row, place in islice(rows, _ROWS):
                    batch.take(row)
                    cursor.places[source.name] = place
                if not batch.rows:
                    break
                batch.end(cursor)
                _write_cursor(target, cursor)
    return Size(cursor.files, cursor.bytes)


def read_cursor(target: Path, job: str | None = None) -> Cursor | None:
    """The cursor of the directory; None if there is none. Raises JobError if it is damaged, of another version or of
    another job; OSError."""
    again = f"remove {target}, and the files are derived again"
    try:
        content = read_envelope(target / CURSOR, MAGIC, VERSION, str(target / CURSOR))
        cursor = msgspec.convert(content, Cursor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (EnvelopeError, msgspec.ValidationError) as error:
        raise JobError(f"{error}: {again}") from error
    if job not in (None, cursor.job):
        raise JobError(f"{target} holds the Markdown of another job: name another directory, or {again}")
    return cursor


def markdown_size(job: Path) -> dict[str, Size]:
    """How large the output is in a job directory, by its name; empty if there is none that can be read."""
    with suppress(JobError, OSError):  # `verify` and the next run say what is wrong
        cursor = read_cursor(job / DIRECTORY)
        return {} if cursor is None else {DIRECTORY: Size(cursor.files, cursor.bytes)}
    return {}


@contextmanager
def _opened(target: Path, job: str) -> Iterator[Cursor]:
    """The cursor of the directory, which is made if there is none, and is locked meanwhile."""
    if not os.path.lexists(target):
        make_private_directory(target)
    try:
        held = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise JobError(f"{target} exists and is not a directory: name another directory") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        cursor = read_cursor(target, job)
        if cursor is None:
            with os.scandir(target) as found:
                if any(entry.name != f"{CURSOR}.part" for entry in found):
                    raise JobError(f"{target} exists and has no {CURSOR}: name another directory")
            cursor = Cursor(job)
            _write_cursor(target, cursor)
        yield cursor
    except BlockingIOError:
        raise JobError(f"{target} is being written by another process: try again later") from None
    finally:
        os.close(held)


def _write_cursor(target: Path, cursor: Cursor) -> None:
    replace_file(RealDisk(), target / CURSOR, encode_envelope(MAGIC, VERSION, msgspec.to_builtins(cursor)))


def _rows(source: Source, place: Place | None) -> Iterator[tuple[Row, Place]]:
    """The rows behind the place, each with its own. Files that are gone are left out, but for the last one: users may
    move full ones away."""
    number, at, last = 1, 0, file_in_output(source.end.file)
    if place is not None:
        number, at = place.file, place.end
    while number <= last:
        path = TEXT.path(source.job, number)
        try:
            stream = open(path, "rb")  # noqa: SIM115 (closed below)
        except FileNotFoundError:
            if number == last:
                raise JobError(f"{path} is missing: put it back") from None
            number, at = number + 1, 0
            continue
        with stream:
            if place is not None and number == place.file:
                stream.seek(place.start)
                if _mark(stream.read(place.end - place.start)) != place.mark:
                    raise JobError(
                        f"{path}: offset {place.start}: not the row that was read last (was it repaired or "
                        "restored?): remove the Markdown files, and they are derived again"
                    )
            stream.seek(at)
            end = source.end.offset if number == last else os.fstat(stream.fileno()).st_size
            while at < end:
                line = stream.readline(_ROW_MOST)
                try:
                    row = _row_of(line)
                except msgspec.DecodeError as error:
                    raise JobError(f"{path}: offset {at}: not a row ({error}); run `crawler verify`") from error
                yield row, Place(number, at, at + len(line), _mark(line))
                at += len(line)
        number, at = number + 1, 0


def _mark(line: bytes) -> str:
    return blake2b(line, digest_size=_MARK).hexdigest()


class _Batch:
    """Writes the files of some rows, and then their lines."""

    def __init__(self, target: Path) -> None:
        self.rows = 0
        self._target = target
        self._disk = RealDisk()
        self._lines: dict[str, Line] = {}
        self._stale = set[str]()  # files that may have a line from before
        self._written = set[Path]()
        self._directories = set[Path]()

    def take(self, row: Row) -> None:
        """Write the file of the page, or remove it. Raises OSError."""
        self.rows += 1
        file = file_of(row.url)
        path = self._target / file
        if row.gone:
            path.unlink(missing_ok=True)
            self._lines.pop(file, None)
            self._stale.add(file)
            self._written.discard(path)
            if path.parent.is_dir():
                self._directories.add(path.parent)
        elif row.markdown is not None:
            if path.exists():
                self._stale.add(file)
            data = _content(row, row.markdown)
            self._write(path, data)
            self._lines.pop(file, None)  # it comes last
            self._lines[file] = Line(row.url, file, row.title, row.fetched_at, len(data))

    def _write(self, path: Path, data: bytes) -> None:
        for missing in reversed(list(takewhile(lambda each: not each.is_dir(), path.parents))):
            make_private_directory(missing)
            self._directories.add(missing.parent)
        part = path.with_name(".part")  # no page has that name
        with open(part, "wb", opener=private_opener) as stream:
            stream.write(data)
        self._disk.replace(part, path)
        self._written.add(path)
        self._directories.add(path.parent)

    def end(self, cursor: Cursor) -> None:
        """Make the files durable, and the index with their lines, and count them. Raises JobError, OSError."""
        self._disk.sync_many(self._target, self._written, self._directories)
        index = self._target / INDEX
        new = b"".join(msgspec.json.encode(line) + b"\n" for line in self._lines.values())
        files, size = len(self._lines), sum(line.bytes for line in self._lines.values())
        if self._stale or (index.exists() and index.stat().st_size != cursor.index):
            part = self._target / f".{INDEX}.part"
            with open(part, "wb", opener=private_opener) as stream:
                cursor.files = cursor.bytes = 0
                for text, line in self._kept(index, cursor.index):
                    stream.write(text)
                    cursor.files, cursor.bytes = cursor.files + 1, cursor.bytes + line.bytes
                stream.write(new)
            self._disk.sync_file(part)
            self._disk.replace(part, index)
        else:
            with open(index, "ab", opener=private_opener) as stream:
                stream.write(new)
            self._disk.sync_file(index)
        self._disk.sync_directory(self._target)
        cursor.files, cursor.bytes, cursor.index = cursor.files + files, cursor.bytes + size, index.stat().st_size

    def _kept(self, index: Path, end: int) -> Iterator[tuple[bytes, Line]]:
        """The lines of files that are not in this batch. Behind ``end`` are only lines of an earlier try of it."""
        if not index.exists():
            return
        at = 0
        with open(index, "rb") as stream:
            for text in stream:
                at += len(text)
                if at > end:
                    return
                try:
                    line = _line_of(text)
                except msgspec.DecodeError as error:
                    raise JobError(
                        f"{index}: offset {at - len(text)}: not a line of the index ({error}): remove "
                        f"{self._target}, and the files are derived again"
                    ) from error
                if line.file not in self._stale and line.file not in self._lines:
                    yield text, line


def _content(row: Row, markdown: str) -> bytes:
    """The file of a page."""
    values = ((name, getattr(row, name)) for name in _HEAD)
    head = "".join(f"{name}: {_quoted(value)}\n" for name, value in values if value is not None)
    return f"---\n{head}---\n\n{markdown.rstrip()}\n".encode("utf-8", "replace")


def _quoted(text: str) -> str:
    """The text as JSON, which is YAML too if it escapes what YAML does not take as it is."""
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
