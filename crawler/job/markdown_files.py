"""The Markdown of pages as files, one for each page, derived from the rows of the text output.

    TARGET/.cursor             the rows read so far: an envelope
    TARGET/index.jsonl         a line for each file
    TARGET/example.org/a.md    a page, at the path from ``file_of``

Rows are processed in batches. The files of a batch are made durable, then the index, then the cursor: after a kill, the
rows of the batch are read again. If a file of the batch already existed, the index is rewritten without its old line
before the new one is appended. Files that no longer have a line are removed last, so that every line always has its
file. Memory holds the names of one batch.

A path is derived from the URL, with a folder for the host and one for each folder of the URL. No two URLs share a path,
and no file has the name that another URL needs for a folder: either the URL can be reconstructed from the path, or the
file name ends in a part of the URL's hash; and no folder ends in ``.md``.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b, sha256
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from crawler.base.disk import RealDisk, make_private_directory, private_opener, replace_file
from crawler.job.checkpoint.envelope import EnvelopeError, content_of, encode_envelope, read_envelope
from crawler.job.directory import JobError
from crawler.job.identity import Identity, read_identity
from crawler.job.output.outputs import FORMS
from crawler.job.output.rotated_files import Size
from crawler.job.records import End, file_in_output

INDEX = "index.jsonl"  # next to the folders of the hosts

_SEGMENT, _FOLDERS, _PATH = 80, 12, 240  # maxima: bytes of a folder or file name, folders, bytes of a path
# Characters (hash: hexadecimal digits). For 10^8 pages, the chance of a collision is 1 in 4,000.
_HOST, _PORT, _HASH = 60, 5, 16
_NOT_IN_HOST = re.compile(r"[^a-z0-9._-]|^\.|^\Z|\.(?=jsonl\Z)")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._~@,()+=%-]|^\.")
_NOT_IN_FOLDER = re.compile(rf"{_NOT_IN_NAME.pattern}|^\Z|\.(?=md\Z)")
_RESERVED = re.compile(rf"index|.*-[0-9a-f]{{{_HASH}}}")  # names that the program gives to other URLs


def file_of(url: str) -> str:
    """Return the path of a page's file."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    host, _, port = authority.partition(":")
    *above, name = re.split("[?#]", path, maxsplit=1)[0].split("/")
    host, port = _NOT_IN_HOST.sub("-", host[:_HOST]), re.sub("[^0-9]", "-", port[:_PORT])
    top = host + ("" if scheme == "https" else "+http") + (f"+{port}" if port else "")
    folders, room = list[str](), _PATH - len(top) - _SEGMENT - 1
    for each in above[:_FOLDERS]:
        folder = _NOT_IN_FOLDER.sub("-", each[:_SEGMENT])
        room -= len(folder) + 1
        if room < 0:
            break
        folders.append(folder)
    name = _NOT_IN_NAME.sub("-", name[: _SEGMENT - len(".md")])
    place = host + (f":{port}" if port else "")
    read_back = f"{'https' if scheme == 'https' else 'http'}://{place}/{'/'.join([*folders, name])}"
    name, is_reserved = name or "index", _RESERVED.fullmatch(name) is not None
    if is_reserved or read_back != url:
        mark = sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
        name = f"{name[: _SEGMENT - len('-.md') - _HASH]}-{mark}"
    return "/".join([top, *folders, f"{name}.md"])


log = logging.getLogger("crawler")

DIRECTORY = "markdown"
CURSOR = ".cursor"
MAGIC = "crawler-markdown"
VERSION = 1
TEXT = FORMS[3]
ROWS = 10_000  # rows in a batch
_LINE_MOST = 2**26  # maximum length of a row in bytes; a hole in a file has no line end
_AGAIN = "delete the directory of Markdown files to have them regenerated"
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
T = TypeVar("T")


class Place(NamedTuple):
    """The last row read: the number of its file, its start and end there, and a hash of its bytes."""

    file: int
    start: int
    end: int
    mark: str


class Cursor(Struct):
    """The content of ``.cursor``.

    ``job``: the job of the rows. ``files``, ``bytes``: the number of files and their size; ``index``: the size of the
    index with the lines of these files. ``places``: the last row read from each source, a job or a partition."""

    job: str
    files: int = 0
    bytes: int = 0
    index: int = 0
    places: dict[str, Place] = field(default_factory=dict)


class _Row(Struct):
    """The fields of a row that are used."""

    url: str
    title: str | None = None
    fetched_at: str = ""
    language: str | None = None
    detected_language: str | None = None
    extractor: str | None = None
    markdown: str | None = None
    gone: bool = False


class _Found(NamedTuple):
    """A row, the number of its file, its offset there, and its line."""

    row: _Row
    file: int
    start: int
    line: bytes


class _Line(Struct):
    """The fields of an index line that are used."""

    file: str
    bytes: int


def name_of_job(identity: Identity) -> str:
    """Return an identifier of the job that does not reveal its secret."""
    return identity.hash.digest_keys([DIRECTORY]).hex()


def derive_own(directory: Path, identity: Identity, end: End | None) -> None:
    """Update the files in a job directory, if the job has rows. Raises the errors of ``derive``."""
    if end is not None:
        derive(directory / DIRECTORY, name_of_job(identity), {"": (directory, end)})


def derive(target: Path, job: str, sources: Mapping[str, tuple[Path, End]], left_out: Collection[str] = ()) -> Size:
    """Update the files in ``target``. If another process is updating them, waits until it has finished.

    ``job`` names the job or crawl; ``sources``: job directories by name, each with the durable end of its rows;
    ``left_out``: URLs that get no files. Returns the number of files, and their bytes. Raises JobError if the target is
    unsuitable or the rows are damaged, OSError."""
    with suppress(FileExistsError):
        make_private_directory(target)
    held = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        cursor = read_cursor(target, job)
        if cursor is None or _is_cut(target / INDEX, cursor):
            if cursor is not None:
                log.warning("%s was removed, or lacks lines: regenerating the Markdown files", target / INDEX)
            (target / INDEX).unlink(missing_ok=True)
            cursor = Cursor(job)
            _write_cursor(target, cursor)
        for name, (directory, end) in sources.items():
            rows = _rows(directory, cursor.places.get(name), end)
            while True:
                batch = _Batch(target)
                last = None
                for last in islice(rows, ROWS):
                    batch.take(replace(last.row, gone=True) if last.row.url in left_out else last.row)
                if last is None:
                    break
                cursor.places[name] = Place(last.file, last.start, last.start + len(last.line), _mark(last.line))
                batch.end(cursor)
                _write_cursor(target, cursor)
        if gone := [href for href in left_out if (target / file_of(href)).exists()]:
            batch = _Batch(target)
            for href in gone:
                batch.take(_Row(href, gone=True))
            batch.end(cursor)
            _write_cursor(target, cursor)
    finally:
        os.close(held)
    return Size(cursor.files, cursor.bytes)


def read_cursor(target: Path, job: str | None = None) -> Cursor | None:
    """Return the cursor of the directory; None if the directory is missing or empty.

    Raises OSError, and JobError if the directory contains foreign files, or the cursor is damaged, of another version
    or of another job."""
    try:
        name = str(target / CURSOR)
        cursor = content_of(read_envelope(target / CURSOR, MAGIC, VERSION, name), Cursor, name)
    except (FileNotFoundError, NotADirectoryError):
        is_there = os.path.lexists(target)
        if is_there and not (target.is_dir() and {f"{CURSOR}.part"}.issuperset(os.listdir(target))):
            raise JobError(
                f"{target} does not contain Markdown files with a {CURSOR}: name another directory, or {_AGAIN}"
            ) from None
        return None
    except (EnvelopeError, IsADirectoryError) as error:
        raise JobError(f"{error}: {_AGAIN}") from error
    if job not in (None, cursor.job):
        raise JobError(f"{target} holds the Markdown of another job: name another directory, or {_AGAIN}")
    return cursor


def markdown_fault(job: Path) -> str | None:
    """Describe the first problem with the files in a job directory; None if all exist. Raises JobError if its identity
    cannot be read."""
    target, name = job / DIRECTORY, name_of_job(read_identity(job))
    try:
        cursor = read_cursor(target, name)
        if cursor is None or not cursor.index:
            return None
        if _is_cut(target / INDEX, cursor):
            return f"{target / INDEX} was removed, or lacks lines"
        files = (target / file for _, file in _lines(target / INDEX, cursor.index))
        return next((f"{file} is missing" for file in files if not file.is_file()), None)
    except (JobError, OSError) as error:
        return str(error)


def markdown_size(job: Path) -> dict[str, Size]:
    """Return the size of the output in a job directory, by its name; empty if there is none, or it cannot be read."""
    with suppress(JobError, OSError):  # the next run reports the error
        if (cursor := read_cursor(job / DIRECTORY)) is not None:
            return {DIRECTORY: Size(cursor.files, cursor.bytes)}
    return {}


def _write_cursor(target: Path, cursor: Cursor) -> None:
    replace_file(RealDisk(), target / CURSOR, encode_envelope(MAGIC, VERSION, msgspec.to_builtins(cursor)))


def _is_cut(index: Path, cursor: Cursor) -> bool:
    """True if the index is a link, or lacks some of its lines."""
    return index.is_symlink() or (index.stat().st_size if index.is_file() else 0) < cursor.index


def _lines(index: Path, end: int) -> Iterator[tuple[bytes, str]]:
    """Yield the lines of the index with their files. Lines after ``end`` belong to a batch that is repeated."""
    with open(index, "rb") as stream:
        for text in stream:
            end -= len(text)
            if end < 0:
                return
            yield text, _decoded(text, _Line, index).file


def _rows(job: Path, place: Place | None, end: End) -> Iterator[_Found]:
    """Yield the rows after ``place`` and before ``end``. Full files that are missing are skipped with a warning,
    because they may have been moved away."""
    first, last = 1 if place is None else place.file, file_in_output(end.file)
    if place is not None and first > last:
        raise JobError(f"{job}: its text ends before the last row read: {_AGAIN}")
    for number in range(first, last + 1):
        path, at = TEXT.path(job, number), 0
        if number < last and not path.exists():
            log.warning("%s is missing: its pages are left out", path)
            continue
        with open(path, "rb") as stream:
            if place is not None and number == first:
                stream.seek(place.start)
                if _mark(stream.read(place.end - place.start)) != place.mark:
                    raise JobError(f"{path}: offset {place.start}: not the last row read: {_AGAIN}")
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
        raise JobError(f"{path}: damaged: not a line that this program writes: {line[:60]!r}") from error


def _mark(line: bytes) -> str:
    return blake2b(line, digest_size=16).hexdigest()


class _Batch:
    """Writes the files of several rows, and then their lines in the index."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._disk = RealDisk()
        self._lines: dict[str, bytes] = {}
        self._stale = set[str]()  # files that may already have a line
        self._directories = {target}

    def take(self, row: _Row) -> None:
        """Write the file of the page, or mark it for removal. Raises JobError if the file would be outside the target,
        OSError."""
        file = file_of(row.url)
        path = self._target / file
        if row.markdown is None and not row.gone:
            return
        if row.gone or path.exists():
            self._stale.add(file)
        self._lines.pop(file, None)  # the new line is appended as the last one
        if path.parent not in self._directories:
            folders = [each for each in path.parents if each.is_relative_to(self._target)]
            for folder in folders[:-1]:  # the last folder is the target itself
                if folder.is_symlink():
                    raise JobError(
                        f"{folder} is a link: remove it; files are written only to folders of {self._target}"
                    )
            if not row.gone:
                path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.is_dir():
                self._directories.update(folders)
        if row.markdown is not None and not row.gone:
            data, part = _content(row, row.markdown), path.with_name(".part")  # no page has that name
            part.unlink(missing_ok=True)  # left by a killed process, or a symlink that points elsewhere
            with open(part, "xb", opener=private_opener) as stream:
                stream.write(data)
            self._disk.replace(part, path)
            line = {"url": row.url, "file": file, "title": row.title, "fetched_at": row.fetched_at, "bytes": len(data)}
            known = {name: value for name, value in line.items() if value is not None}
            self._lines[file] = msgspec.json.encode(known) + b"\n"

    def end(self, cursor: Cursor) -> None:
        """Make the files durable, then the index with their lines, and count them. Raises JobError, OSError."""
        self._disk.sync_many(self._target, [self._target / file for file in self._lines], self._directories)
        index = self._target / INDEX
        index.touch(0o600)
        written, kept = index, iter(list[bytes]())
        if self._stale or index.stat().st_size != cursor.index:
            changed = self._stale | self._lines.keys()
            kept = (text for text, file in _lines(index, cursor.index) if file not in changed)
            written = self._target / f".{INDEX}.part"
            written.unlink(missing_ok=True)
            cursor.files = cursor.bytes = 0
        with open(written, "ab", opener=private_opener) as stream:
            for text in chain(kept, self._lines.values()):
                stream.write(text)
                cursor.files, cursor.bytes = cursor.files + 1, cursor.bytes + _decoded(text, _Line, index).bytes
            cursor.index = stream.tell()
        self._disk.sync_file(written)
        self._disk.replace(written, index)
        gone = self._stale - self._lines.keys()
        for file in gone:
            (self._target / file).unlink(missing_ok=True)
        self._disk.sync_many(self._target, [], self._directories if gone else [self._target])


def _content(row: _Row, markdown: str) -> bytes:
    """Return the content of a page's file."""
    values = asdict(row) | {"markdown": None, "gone": None}
    head = "".join(f"{name}: {_quoted(value)}\n" for name, value in values.items() if value is not None)
    return f"---\n{head}---\n\n{markdown.rstrip()}\n".encode("utf-8", "replace")


def _quoted(text: str) -> str:
    """Return the text as JSON, which is also valid YAML once the characters that YAML excludes are escaped."""
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
