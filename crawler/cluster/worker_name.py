"""``DIR/workers``: the names of the workers of a directory.

A claim belongs to a worker's name, and lasts for up to 10 seconds after the worker was killed. A worker that starts in
the directory of a dead worker takes over its name, and with it all of its claims, at once. It may do so only if the
former worker is certainly dead:

    DIR/workers/<name>    holds the place of the directory, and is locked (flock) by the worker with that name for the
                          life of its process; removed on a clean exit

Only the kernel under which a worker runs knows about its lock. A file that was written under another kernel, or in a
directory that was then copied to this one, therefore holds another place, and its name is not taken over.
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
_TRIES = 10  # another process looking for a name may lock a new file briefly


class _Kept(Struct):
    """The name of this process, and its file."""

    path: Path
    descriptor: int


@contextlib.contextmanager
def own_name(directory: Path) -> Iterator[str]:
    """While the context is active, hold a name that no other process has: that of a dead worker of the directory, if
    any."""
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
    """Return the name that was taken over or created; None if it is impossible to tell whether a worker is alive.
    Raises OSError."""
    if not place:
        return None
    make_private_directory(names, exist_ok=True)
    for path in sorted(path for path in names.iterdir() if _NAME.fullmatch(path.name)):
        descriptor = None
        with contextlib.suppress(OSError):  # a foreign file must not block other names
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
    """Remove the file while holding its lock, so that a process that has already opened the file sees that it is gone.
    Raises OSError."""
    try:
        kept.path.unlink(missing_ok=True)
    finally:
        unlock(kept.descriptor)


def _new_name() -> str:
    return entropy.random_bytes(8).hex()
