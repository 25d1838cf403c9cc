"""Output directories and files that appear complete or not at all: each is written next to its final place, then
renamed.

Earlier exports are replaced. A directory is recognised by its file ``export.json``, which also describes the export; a
file is recognised by its content. Only earlier exports and empty directories or files are ever replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from crawler.base.disk import RealDisk
from crawler.base.faults import Failure, UserFault

MARK = "export.json"


class ExportError(UserFault):
    """The export cannot be written to the given place. The message is one line that gives the reason and what to do."""


class SourceError(Failure):
    """The source of the export is damaged or incomplete. The message is one line that states what to do."""


def free_place(out: Path, job: Path, kind: str, names: Collection[str]) -> Path:
    """Return the absolute path of ``out``, outside the job's directory. Raises ExportError unless ``out`` is missing,
    an empty directory, or an earlier export of this kind with files of these names."""
    out = _outside(out, job)
    if not os.path.lexists(out):
        return out
    if not out.is_dir() or out.is_symlink():
        raise ExportError(f"{out} exists and is not a directory: use another directory")
    found = {path.name for path in out.iterdir()}
    if found and _mark(out).get("export") != kind:
        raise ExportError(f"{out} exists and is not an earlier export: use another directory")
    strange = sorted(found - {MARK, *names})
    if strange:
        raise ExportError(f"{out} holds {strange[0]}, which no export created: move it, or use another directory")
    return out


def _outside(out: Path, job: Path | None) -> Path:
    """Return the absolute path of ``out``. Raises ExportError unless ``out`` is in an existing directory and outside
    the job's directory."""
    out = Path(os.path.abspath(out))
    if job is not None:
        check_outside(out, job)
    if not out.parent.is_dir():
        raise ExportError(f"{out.parent} is not a directory: make it first")
    return out


def check_outside(out: Path, job: Path) -> None:
    """Raise ExportError if ``out`` is in the job's directory."""
    if out.resolve().is_relative_to(job.resolve()):
        raise ExportError(f"{out} is in the job's directory, which belongs to the program: use another place")


def free_file(out: Path, job: Path | None, is_earlier: Callable[[BinaryIO], bool]) -> Path:
    """Return the absolute path of ``out``, outside the directory of ``job``, if given. Raises ExportError unless
    ``out`` is missing, empty, or an earlier export according to ``is_earlier``; OSError if it cannot be read."""
    out = _outside(out, job)
    if not os.path.lexists(out):
        return out
    if out.is_symlink() or not out.is_file():
        raise ExportError(f"{out} exists and is not a file: use another file")
    with open(out, "rb") as stream:
        if out.stat().st_size and not is_earlier(stream):
            raise ExportError(f"{out} exists and is not an earlier export: use another file, or move it away")
    return out


def _mark(out: Path) -> dict[str, Any]:
    try:
        mark = json.loads((out / MARK).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}


@contextlib.contextmanager
def made_beside(out: Path) -> Iterator[Path]:
    """Yield a new directory next to ``out``. When the context ends without an exception, its files are made durable and
    the directory replaces ``out``; otherwise the directory is removed. Raises OSError."""
    disk = RealDisk()
    with _part_of(out) as part:
        yield part
        for path in part.iterdir():
            disk.sync_file(path)
        disk.sync_directory(part)
        _replace(disk, part, out)


@contextlib.contextmanager
def file_made_beside(out: Path) -> Iterator[Path]:
    """Yield a new directory next to ``out``. The caller writes a file with the name of ``out`` there, and any temporary
    files. If the context ends without an exception, that file is made durable and replaces ``out``. In any case, the
    directory is removed. Raises OSError."""
    disk = RealDisk()
    with _part_of(out, 0o700) as part:
        yield part
        disk.sync_file(part / out.name)
        disk.replace(part / out.name, out)
        disk.sync_directory(out.parent)


@contextlib.contextmanager
def _part_of(out: Path, mode: int = 0o777) -> Iterator[Path]:
    """Yield a new directory next to ``out``, and remove it at the end if it still exists. First remove the leftovers of
    killed exports."""
    _remove_left(out)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    part.mkdir(mode)
    lock = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(lock)


def _replace(disk: RealDisk, part: Path, out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        # A directory with files cannot be replaced by renaming, so for a moment ``out`` does not exist.
        old = part.with_suffix(".old.part")
        disk.move(out, old)
        try:
            disk.move(part, out)
        except OSError:
            disk.move(old, out)
            raise
        shutil.rmtree(old)
    else:
        disk.move(part, out)
    disk.sync_directory(out.parent)


def _remove_left(out: Path) -> None:
    """Remove the leftovers of killed exports, but not the directory of a running export, which holds a lock."""
    for part in out.parent.glob(f".{glob.escape(out.name)}.*.part"):
        try:
            held = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(part, ignore_errors=True)
        finally:
            os.close(held)
