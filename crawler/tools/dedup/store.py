"""A seen-set in a file, replaced atomically and locked by one process at a time.

FILE          a stored seen-set (docs/internals/format-slice.md); the header of its first segment stores in ``keys``
              how keys were computed from lines, and in ``digests`` which part of FILE.digests belongs to it
FILE.digests  the digests of its keys (``digest_file``)
FILE.part     its next version, while it is being written
FILE.lock     locked (flock) by the process that will replace FILE; it contains the pid
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from msgspec import Struct

from crawler.base.disk import Disk, RealDisk
from crawler.base.faults import UserFault
from crawler.job.job_lock import locked, unlock
from crawler.seen.filters import JSON, Filter, FilterError, FormatError, KeyHash, load_seen
from crawler.seen.filters.chain import hash_of
from crawler.seen.filters.filter_file import check_end, opened_filter, read_parts, read_state, replace_file
from crawler.seen.filters.segment_format import Output
from crawler.tools.dedup.digest_file import Mark
from crawler.tools.dedup.key_spec import KeySpec


class FilterFileError(UserFault):
    """The file does not hold the expected filter. The message is one line for the user."""


class StoredFilter(Struct, frozen=True):
    """The contents of a file. ``keys`` is None if the file does not say how keys were computed; ``digests`` is None if
    no digests are stored next to the file."""

    seen: Filter
    keys: KeySpec | None
    digests: Mark | None = None


def read_filter(path: Path) -> StoredFilter:
    """Read a filter. Raises FilterFileError, including when the file is missing or the filter does not fit into
    memory."""
    with open_filter(path) as (inp, size):
        stored = read_stored(inp, size)
        check_end(inp)
    return stored


@contextlib.contextmanager
def open_filter(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open the file of a filter that fits into memory, and yield it with its size. Raises FilterFileError, also in
    place of an OSError, FormatError or FilterError raised in the context."""
    try:
        with opened_filter(path) as found:
            yield found
    except OSError as error:
        raise FilterFileError(f"cannot read filter {path}: {error.strerror}") from error
    except (FormatError, FilterError) as problem:
        raise FilterFileError(f"filter {path}: {problem}") from problem


def read_hash(path: Path) -> KeyHash:
    """Read only the hash of a filter. Raises FilterFileError."""
    with open_filter(path) as (inp, _):
        return hash_of(read_state(inp)[1])


def read_stored(inp: BinaryIO, limit: int) -> StoredFilter:
    """Read the output of ``write_stored``, and leave ``inp`` positioned after it. ``limit`` bounds the bytes of a
    segment.

    Raises FormatError, FilterError.
    """
    found = read_parts(inp, limit)
    keys, digests = found.header.get("keys"), found.header.get("digests")
    spec = KeySpec.from_json(keys) if isinstance(keys, Mapping) else None
    mark = Mark.from_json(digests) if isinstance(digests, Mapping) else None
    return StoredFilter(load_seen(found.state, found.segments), spec, mark)


def write_stored(out: Output, stored: StoredFilter) -> None:
    """Write like ``Filter.save``, with additional fields in the first header. ``read_stored`` reads the output of
    either."""
    header: dict[str, JSON] = {}
    if stored.keys is not None:
        header["keys"] = stored.keys.as_json()
    if stored.digests is not None:
        header["digests"] = stored.digests.as_json()
    stored.seen.write_to(out, header)


class FilterFile:
    """The file of a filter, locked inside the context. Symbolic links in ``path`` are resolved."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self.path = Path(os.path.realpath(path))
        self._disk = disk or RealDisk()
        self._lock = self.path.with_name(self.path.name + ".lock")
        self.digests = self.path.with_name(self.path.name + ".digests")
        self._fd: int | None = None

    def __enter__(self) -> FilterFile:
        """Lock the file. Raises FilterFileError if another process has locked it, or if it cannot be written."""
        if self.path.exists() and not self.path.is_file():
            raise FilterFileError(f"{self.path} is not a regular file")
        while self._fd is None:
            try:
                self._lock.touch()
            except OSError as error:
                raise FilterFileError(f"cannot write filter {self.path}: {error.strerror}") from error
            with contextlib.suppress(FileNotFoundError):  # the process that held the lock has just removed the file
                self._fd = locked(self._lock)
                if self._fd is None:
                    holder = self._lock.read_text("ascii", "replace").strip()
                    raise FilterFileError(f"filter {self.path} is in use by process {holder or 'unknown'}")
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._fd is not None:
            # Unlink the file while it is locked: a process that opened it meanwhile finds the name gone, and retries.
            os.unlink(self._lock)
            unlock(self._fd)
            self._fd = None

    def write(self, stored: StoredFilter) -> None:
        """Replace the file atomically. Raises OSError."""
        self.replace(lambda out: write_stored(out, stored))

    def replace(self, write: Callable[[Output], object]) -> None:
        """Replace the file atomically with the output of ``write``."""
        replace_file(self.path, write, self._disk)
