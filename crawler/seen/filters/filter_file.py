"""A seen-set in a file: a segment with its state and no payload, followed by its other segments (``segment_format``).

The first segment's header may hold more than the state: ``crawler dedup`` stores there how it computes keys from lines.
Other programs ignore this, so they and ``crawler dedup`` can read each other's files.

The state contains the hash of the keys, with its secret: anyone who can read the file can forge keys. So a new file is
readable only by its owner. Files of earlier versions do not name their hash; it is MurmurHash3 with seed 0.

This is the only module of the package that opens files, and only at the paths that it is given.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from crawler.base.disk import Appender, Disk, RealDisk
from crawler.seen.filters.planning import check_memory
from crawler.seen.filters.protocol import SeenSnapshot
from crawler.seen.filters.segment_format import (
    NAMES_HASH,
    FormatError,
    Output,
    check_version,
    read_segment,
    write_segment,
)
from crawler.seen.slices.errors import JSON

FilePath = str | os.PathLike[str]

_HOLDS = "seen-set"


class StoredParts(Struct, frozen=True):
    """The content of a file: the first segment's ``header``, which contains the ``state``, and the other segments by
    name."""

    header: Mapping[str, Any]
    state: Mapping[str, Any]
    segments: Mapping[str, memoryview]


def write_parts(out: Output, shot: SeenSnapshot, header: Mapping[str, JSON]) -> None:
    """Write a snapshot at ``out``'s position. ``header`` is added to the first segment's header, next to the state."""
    names: list[Any] = [part.name for part in shot.segments]
    write_segment(out, {"holds": _HOLDS, "state": shot.state, "segments": names, **header}, memoryview(b""), NAMES_HASH)
    for part in shot.segments:
        write_segment(out, part.header, part.buffer)


def read_parts(inp: BinaryIO, limit: int) -> StoredParts:
    """Read the output of ``write_parts``, and leave ``inp`` positioned after it. ``limit`` bounds the bytes of a
    segment; the size of the file is a good choice. Raises ``FormatError``, or ``FilterError`` if there is not enough
    memory."""
    header, state = read_state(inp)
    names = header.get("segments")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError("the list of segments in the header is not a list of strings")
    return StoredParts(header, state, {name: _payload(inp, name, limit) for name in names})


def read_state(inp: BinaryIO) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the header of the first segment, and the state in it. Raises ``FormatError``."""
    header, _ = read_segment(inp, limit=0)
    state = header.get("state")
    if header.get("holds") != _HOLDS or not isinstance(state, Mapping):
        raise FormatError("the first segment of the file is not the state of a seen-set")
    return header, state


def _payload(inp: BinaryIO, name: str, limit: int) -> memoryview:
    start = inp.tell() if inp.seekable() else None
    try:
        return read_segment(inp, limit=limit)[1]
    except FormatError as problem:
        where = "" if start is None else f", which starts at {start}"
        raise FormatError(f"segment {name}{where}: {problem}") from problem


def check_end(inp: BinaryIO) -> None:
    """Check that ``inp`` is at its end. Raises ``FormatError``."""
    if inp.read(1):
        raise FormatError("the file has more data after its last segment")


def read_file(path: FilePath) -> StoredParts:
    """Read the parts of the file at ``path``. Raises ``FormatError``, ``FilterError``, ``OSError``."""
    with open(path, "rb") as inp:
        size = os.fstat(inp.fileno()).st_size
        found = read_parts(inp, size)
        check_end(inp)
    return found


@contextmanager
def opened_filter(path: FilePath) -> Iterator[tuple[BinaryIO, int]]:
    """Open the file of a filter that fits into memory, and yield it with its size. Raises ``FormatError``,
    ``FilterError``, ``OSError``."""
    with open(path, "rb", opener=_without_waiting) as inp:
        found = os.fstat(inp.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise FormatError("not a regular file")
        check_version(inp)
        check_memory(found.st_size, "the filter in it")
        yield inp, found.st_size


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; if it is a pipe, do not wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def replace_file(path: FilePath, write: Callable[[Output], object], disk: Disk | None = None) -> None:
    """Let ``write`` write a new file at ``path``, readable only by its owner, because it holds a secret.

    After a crash, ``path`` is either the old or the new file, complete. Raises ``OSError``."""
    path = Path(path)
    disk, part = disk or RealDisk(), path.with_name(path.name + ".part")
    if part.exists():
        disk.unlink(part)  # left by a killed run, perhaps of an earlier version, and readable by others
    file = disk.open(part, create=True)
    try:
        file.truncate(0)
        write(Appender(file))
        file.sync()
    except BaseException as error:
        disk.unlink(part)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(part)) from error
        raise
    finally:
        file.close()
    disk.replace(part, path)
    disk.sync_directory(path.parent)
