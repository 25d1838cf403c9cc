"""``DIR/workers``: the names of the workers of a directory.

A claim is held by a name, for 10 seconds after its worker was killed. A worker that begins in the directory of one that
is dead takes its name, and with that all that is claimed by it, at once. It may do so only if the former one is dead
for certain:

DIR/workers/<name>    has the place of the directory, and is held (flock) by the worker with that name as long as its
                      process lives; removed when it ends in order

Only the kernel under which a worker ran knows of its lock. So a file from another one, or of a directory of which this
one is a copy, has another place in it, and gives nobody its name.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from crawler.base import entropy
from crawler.base.disk import Expendable, make_private_directory
from crawler.job.crawl_file import place_of
from crawler.job.job_lock import locked, unlock

WORKERS = "workers"
_NAME = re.compile("[0-9a-f]{16}")
_TRIES = 10  # somebody else who looks for a name may hold a new file for a moment


class _Kept(Struct):
    """A name that this process has, and its file."""

    path: Path
    descriptor: int


@contextlib.contextmanager
def own_name(directory: Path) -> Iterator[str]:
    """A context in which no other process has this name. It is that of a dead worker of the directory, if there is
    one."""
    names, kept = directory / WORKERS, None
    with Expendable(str(names)):
        kept = _kept(names, place_of(directory))
    try:
        yield _new_name() if kept is None else kept.path.name
    finally:
        if kept is not None:
            with Expendable(str(names)):
                _leave(kept)


def _kept(names: Path, place: str) -> _Kept | None:
    """None if nobody could tell whether its worker lives. Raises OSError."""
    if not place:
        return None
    make_private_directory(names, exist_ok=True)
    for path in sorted(path for path in names.iterdir() if _NAME.fullmatch(path.name)):
        descriptor = None
        with contextlib.suppress(OSError):  # what is none of ours does not keep others from their names
            descriptor = locked(path)
        if descriptor is None:
            continue
        former = _Kept(path, descriptor)
        if os.pread(descriptor, len(place) + 1, 0) == place.encode():
            return former
        _leave(former)
    for _ in range(_TRIES):
        path = names / _new_name()
        descriptor = locked(path, os.O_CREAT)
        if descriptor is not None:
            os.pwrite(descriptor, place.encode(), 0)
            return _Kept(path, descriptor)
    return None


def _leave(kept: _Kept) -> None:
    """Remove the file while it is held: who has opened it before finds that it is gone. Raises OSError."""
    try:
        kept.path.unlink(missing_ok=True)
    finally:
        unlock(kept.descriptor)


def _new_name() -> str:
    return entropy.random_bytes(8).hex()
