"""Bodies of HTTP responses in files named by their digest: ``DIR/bodies/ab/cd/ab...``, the SHA-256 in hexadecimal.

A file is written under a temporary name in the same directory and renamed, so a process that dies leaves no partial
file under the final name. Equal bodies share a file. The file remains even if its page is not finished, and is used if
the same body is fetched again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import Disk, DisplacedError, failpoint, make_private_directory, open_regular
from crawler.job.output.record_reader import Record, record_of
from crawler.job.output.rotated_files import Size
from crawler.job.records import Body, StoredValue, body_name

DIRECTORY = "bodies"
BODY_SIZES = b"body-sizes"  # key of the store's row with the number of files and their bytes
LARGE = 256 * 1024  # minimum bytes of a body that is written outside the event loop

_PIECE = 2**20  # bytes read and written at a time
# Errors that mean that the path is not a regular file, or is missing; EINVAL means a pipe or a device.
_NO_FILE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO))
_NAME = re.compile(r"bodies/([0-9a-f]{2})/([0-9a-f]{2})/(\1\2[0-9a-f]{60})")
_SIZES = StoredValue(Size, "the number of bodies")
encode_sizes = _SIZES.encode


def body_of(record: Record) -> str | None:
    """Return the path, in the job directory, of the body that a page's record names; None if it names no body."""
    name = record.get("body")
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def body_in(line: bytes) -> str | None:
    """Like ``body_of``, but given the line of a record."""
    if b'"body":"bodies/' not in line:
        return None
    record = record_of(line)
    return None if record is None else body_of(record)


def is_whole(job: Path, name: str) -> bool:
    """True if the file exists and its content matches the digest in its name. Raises OSError."""
    digest = hashlib.sha256()
    try:
        with open_regular(job / name) as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        if error.errno in _NO_FILE:
            return False
        raise
    return digest.hexdigest() == name.rpartition("/")[2]


def decode_sizes(value: bytes | None) -> Size:
    """Decode the number of files and their bytes, as stored; zeros if the store has none. Raises JournalError."""
    return Size(0, 0) if value is None else _SIZES.decode(value)


def sizes_found(job: Path) -> Size:
    """Count the body files in the directory and their bytes, including files that no record names. Raises OSError."""
    files = size = 0
    for _, entry in bodies_in(job):
        files, size = files + 1, size + entry.stat().st_size
    return Size(files, size)


def bodies_in(job: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the body files in the directory with their paths in the job, including files that no record names. Raises
    OSError."""
    for first in _directories(job / DIRECTORY):
        for second in _directories(first):
            with os.scandir(second) as found:
                for entry in found:
                    name = f"{DIRECTORY}/{first.name}/{second.name}/{entry.name}"
                    if _NAME.fullmatch(name) and entry.is_file():
                        yield name, entry


def _directories(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if path.is_dir()] if top.is_dir() else []


class BodyFiles:
    """The bodies of a job opened for writing."""

    def __init__(self, job: Path, disk: Disk) -> None:
        self.size = Size(0, 0)  # size as stored, plus the bodies written since
        self._job = job
        self._disk = disk
        self._large = threading.Lock()  # one large body is written at a time
        self._ahead: dict[str, bool] = {}  # large bodies written before their page is finished: True if the file is new
        self._files: set[str] = set()  # files that are not durable yet
        self._directories: set[Path] = set()  # directories with names that are not durable yet
        self._held: list[str] = []  # names of bodies that ``holds`` found
        self._uncounted: set[str] = set()  # names of bodies that ``uncount`` has subtracted

    def write_ahead(self, body: Body) -> None:
        """Write a large body before its page is finished. May run in a thread. Raises OSError; the transaction then
        writes the body again."""
        name = body_name(body.digest)
        with self._large:
            self._ahead[name] = self._put(name, body.data) or self._ahead.get(name, False)

    def put(self, body: Body) -> None:
        """Write the body unless its file exists. Raises OSError; the caller may then try again."""
        name = body_name(body.digest)
        written = self._ahead.pop(name, None)
        if written is None:
            # A large body is written here only if the disk was full in ``write_ahead``.
            with self._large if len(body.data) > LARGE else contextlib.nullcontext():
                written = self._put(name, body.data)
        if written:
            self.size = Size(self.size.files + 1, self.size.bytes + len(body.data))
        failpoint("body.placed")

    def encoded_sizes(self) -> bytes:
        """Return the number of files and their bytes, encoded for the store."""
        return encode_sizes(self.size)

    def _put(self, name: str, data: bytes) -> bool:
        """Write the file unless it exists. Returns True if it was written."""
        path = self._job / name
        if self._is_there(path, data):
            self._dirty(name)  # the file may come from a process that was killed before a sync
            return False
        part = path.with_name(f"{path.name}.part")
        try:
            file = self._disk.open(part, create=True)
        except FileNotFoundError:
            self._make_directories(path.parent)
            file = self._disk.open(part, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(0)  # free the space: the disk may be full
            raise
        finally:
            file.close()
        failpoint("body.written")
        self._disk.replace(part, path)
        self._files.add(name)
        self._directories.add(path.parent)
        return True

    def _is_there(self, path: Path, data: bytes) -> bool:
        """True if the file holds these bytes. Its content may differ after a power loss, if no finished page names the
        file."""
        try:
            if path.stat().st_size != len(data):
                return False
            with open(path, "rb") as stream:
                return all(stream.read(_PIECE) == data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
        except FileNotFoundError:
            return False

    def _dirty(self, name: str) -> None:
        """Mark the file and its parent directories as not known to be durable."""
        self._files.add(name)
        self._directories.update((self._job / name).parents[:4])

    def _make_directories(self, directory: Path) -> None:
        for made in (directory.parent.parent, directory.parent, directory):
            if not made.is_dir():
                make_private_directory(made, exist_ok=True)
                self._directories.add(made.parent)

    # -- when a job is resumed ---------------------------------------------------------------------------------

    def holds(self, line: bytes) -> bool:
        """True if the record in the line names no body, or one that exists intact."""
        name = body_in(line)
        if name is None:
            return True
        if not is_whole(self._job, name):
            return False
        self._held.append(name)
        return True

    def uncount(self, line: bytes) -> None:
        """Stop counting the body of a lost record if the body's file is missing: the next write of the body counts it
        again.

        Raises OSError."""
        name = body_in(line)
        if name is None or name in self._uncounted or is_whole(self._job, name):
            return
        self._uncounted.add(name)
        size = (record_of(line) or {}).get("bytes")
        self.size = Size(max(0, self.size.files - 1), max(0, self.size.bytes - (size if isinstance(size, int) else 0)))

    def write_again(self) -> None:
        """Rewrite the bodies that ``holds`` found (see ``AppendedFile.write_again``). Raises OSError."""
        for name in dict.fromkeys(self._held):
            file = self._disk.open(self._job / name)
            try:
                for at in range(0, file.size(), _PIECE):
                    file.pwrite(file.pread(_PIECE, at), at)
            finally:
                file.close()
            self._dirty(name)
        self._held.clear()

    # -- durability --------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make the written data durable. May run in a thread during further writes, which the next call syncs.

        Raises OSError."""
        # Files added meanwhile are synced next time. A directory is added after the file in it.
        files, directories = list(self._files), set[Path]()
        try:
            self._files.difference_update(files)
            directories.update(list(self._directories))
            self._directories -= directories
            if not (files or directories):
                return
            self._disk.sync_many(self._job / DIRECTORY, [self._job / name for name in files], directories - {self._job})
            if self._job in directories:
                self._disk.sync_directory(self._job)
        except OSError as error:
            self._files.update(files)
            self._directories.update(directories)
            if error.errno == errno.ENOENT:
                raise DisplacedError(
                    f"{self._job / DIRECTORY} or a file in it was moved or removed during the crawl: put it back as "
                    f"it was, or run `crawler repair {self._job}`, which requeues the missing pages; then run the same "
                    "command"
                ) from error
            raise
