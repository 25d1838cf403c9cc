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
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from crawler.base.disk import RealDisk, make_private_directory, private_opener, replace_file
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.directory import JobError
from crawler.job.identity import Identity
from crawler.job.output.markdown_names import INDEX, file_of
from crawler.job.output.outputs import FORMS
from crawler.job.output.rotated_files import Size
from crawler.job.records import End, file_in_output

log = logging.getLogger("crawler")

DIRECTORY = "markdown"
CURSOR = ".cursor"
MAGIC = "crawler-markdown"
VERSION = 1
TEXT = FORMS[3]
ROWS = 10_000  # of a batch
_LINE_MOST = 2**26  # bytes of a row: of a hole in a file, no more is read
_AGAIN = "delete the directory of Markdown files to have them made again"
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
T = TypeVar("T")


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


class _Row(Struct):
    """What is used of a row."""

    url: str
    title: str | None = None
    fetched_at: str = ""
    language: str | None = None
    detected_language: str | None = None
    extractor: str | None = None
    markdown: str | None = None
    gone: bool = False


class _Found(NamedTuple):
    """A row, the number of its file, where it starts there, and its line."""

    row: _Row
    file: int
    start: int
    line: bytes


class _Line(Struct):
    """What is used of a line of the index."""

    file: str
    bytes: int


def name_of_job(identity: Identity) -> str:
    """What tells the job from others, and its secret to nobody."""
    return identity.hash.digest_keys([DIRECTORY]).hex()


def derive_own(directory: Path, identity: Identity, end: End | None) -> None:
    """Bring the files in the directory of a job up to date, if it has rows. Raises what ``derive`` raises."""
    if end is not None:
        derive(directory / DIRECTORY, name_of_job(identity), {"": (directory, end)})


def derive(target: Path, job: str, sources: Mapping[str, tuple[Path, End]]) -> Size:
    """Bring the files in ``target`` up to date. ``job`` names the job or crawl; ``sources``: job directories by names,
    and the ends of their rows that no crash cuts off. Waits while another process does the same. Returns how many files
    there are, and their bytes. Raises JobError if the target is no place for them or the rows are damaged, OSError."""
    with suppress(FileExistsError):
        make_private_directory(target)
    held = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        cursor = read_cursor(target, job)
        if cursor is None:
            if any(name != f"{CURSOR}.part" for name in os.listdir(target)):
                raise JobError(f"{target} is not empty, and no earlier export: name another directory, or {_AGAIN}")
            cursor = Cursor(job)
            _write_cursor(target, cursor)
        for name, (directory, end) in sources.items():
            rows = _rows(directory, cursor.places.get(name), end)
            while True:
                batch = _Batch(target)
                last = None
                for last in islice(rows, ROWS):
                    batch.take(last.row)
                if last is None:
                    break
                cursor.places[name] = Place(last.file, last.start, last.start + len(last.line), _mark(last.line))
                batch.end(cursor)
                _write_cursor(target, cursor)
    finally:
        os.close(held)
    return Size(cursor.files, cursor.bytes)


def read_cursor(target: Path, job: str | None = None) -> Cursor | None:
    """The cursor of the directory; None if there is none. Raises JobError if it is damaged, of another version or of
    another job; OSError."""
    try:
        cursor = msgspec.convert(read_envelope(target / CURSOR, MAGIC, VERSION, str(target / CURSOR)), Cursor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (EnvelopeError, IsADirectoryError, msgspec.ValidationError) as error:
        raise JobError(f"{error}: {_AGAIN}") from error
    if job not in (None, cursor.job):
        raise JobError(f"{target} holds the Markdown of another job: name another directory, or {_AGAIN}")
    return cursor


def markdown_fault(job: Path) -> str | None:
    """What is wrong with the cursor in a job directory; None if it is whole."""
    try:
        read_cursor(job / DIRECTORY)
    except (JobError, OSError) as error:
        return str(error)
    return None


def markdown_size(job: Path) -> dict[str, Size]:
    """How large the output is in a job directory, by its name; empty if there is none that can be read."""
    with suppress(JobError, OSError):  # the next run says what is wrong
        if (cursor := read_cursor(job / DIRECTORY)) is not None:
            return {DIRECTORY: Size(cursor.files, cursor.bytes)}
    return {}


def _write_cursor(target: Path, cursor: Cursor) -> None:
    replace_file(RealDisk(), target / CURSOR, encode_envelope(MAGIC, VERSION, msgspec.to_builtins(cursor)))


def _rows(job: Path, place: Place | None, end: End) -> Iterator[_Found]:
    """The rows behind the place and before the end. Full files may have been moved away."""
    first, last = 1 if place is None else place.file, file_in_output(end.file)
    for number in range(first, last + 1):
        path, at = TEXT.path(job, number), 0
        if number < last and not path.exists():
            log.warning("%s is missing: its pages are left out", path)
            continue
        with open(path, "rb") as stream:
            if place is not None and number == first:
                stream.seek(place.start)
                if _mark(stream.read(place.end - place.start)) != place.mark:
                    raise JobError(f"{path}: offset {place.start}: not the row that was read last: {_AGAIN}")
                at = place.end
            stop = end.offset if number == last else os.fstat(stream.fileno()).st_size
            while at < stop:
                line = stream.readline(_LINE_MOST)
                yield _Found(_decoded(line, _Row, path), number, at, line)
                at += len(line)


def _decoded(line: bytes, kind: type[T], path: Path) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: damaged: not what this program writes: {line[:60]!r}") from error


def _mark(line: bytes) -> str:
    return blake2b(line, digest_size=16).hexdigest()


class _Batch:
    """Writes the files of some rows, and then their lines."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._disk = RealDisk()
        self._lines: dict[str, bytes] = {}
        self._stale = set[str]()  # files that may have a line from before
        self._directories = {target}

    def take(self, row: _Row) -> None:
        """Write the file of the page, or remove it. Raises OSError."""
        file = file_of(row.url)
        path = self._target / file
        if row.markdown is None and not row.gone:
            return
        if row.gone or path.exists():
            self._stale.add(file)
        self._lines.pop(file, None)  # a new one comes last
        if row.gone:
            path.unlink(missing_ok=True)
        elif row.markdown is not None:
            if path.parent not in self._directories:
                path.parent.mkdir(parents=True, exist_ok=True)
            data, part = _content(row, row.markdown), path.with_name(".part")  # no page has that name
            part.unlink(missing_ok=True)  # of a kill, or a link that leads elsewhere
            with open(part, "xb", opener=private_opener) as stream:
                stream.write(data)
            self._disk.replace(part, path)
            line = {"url": row.url, "file": file, "title": row.title, "fetched_at": row.fetched_at, "bytes": len(data)}
            known = {name: value for name, value in line.items() if value is not None}
            self._lines[file] = msgspec.json.encode(known) + b"\n"
        if path.parent not in self._directories and path.parent.is_dir():
            self._directories.update(each for each in path.parents if each.is_relative_to(self._target))

    def end(self, cursor: Cursor) -> None:
        """Make the files durable, and the index with their lines, and count them. Raises JobError, OSError."""
        self._disk.sync_many(self._target, [self._target / file for file in self._lines], self._directories)
        index = self._target / INDEX
        index.touch(0o600)
        written, kept = index, iter(list[bytes]())
        if self._stale or index.stat().st_size != cursor.index:
            written, kept = self._target / f".{INDEX}.part", self._kept(index, cursor.index)
            written.unlink(missing_ok=True)
            cursor.files = cursor.bytes = 0
        with open(written, "ab", opener=private_opener) as stream:
            for text in chain(kept, self._lines.values()):
                stream.write(text)
                cursor.files, cursor.bytes = cursor.files + 1, cursor.bytes + _decoded(text, _Line, index).bytes
            cursor.index = stream.tell()
        self._disk.sync_file(written)
        self._disk.replace(written, index)
        self._disk.sync_directory(self._target)

    def _kept(self, index: Path, end: int) -> Iterator[bytes]:
        """The lines of files that are not in this batch. Behind ``end`` are only lines of an earlier try of it."""
        changed = self._stale | self._lines.keys()
        with open(index, "rb") as stream:
            for text in stream:
                end -= len(text)
                if end < 0:
                    return
                if _decoded(text, _Line, index).file not in changed:
                    yield text


def _content(row: _Row, markdown: str) -> bytes:
    """The file of a page."""
    values = asdict(row) | {"markdown": None, "gone": None}
    head = "".join(f"{name}: {_quoted(value)}\n" for name, value in values.items() if value is not None)
    return f"---\n{head}---\n\n{markdown.rstrip()}\n".encode("utf-8", "replace")


def _quoted(text: str) -> str:
    """The text as JSON, which is YAML too if it escapes what YAML does not take as it is."""
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
