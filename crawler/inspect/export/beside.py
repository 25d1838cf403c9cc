"""A directory, or a file, that appears whole or not at all: it is written beside its place, and then renamed.

What an earlier export has made is replaced. To be known again, a directory has a file ``export.json``, which also says
what the export holds; a file is known by what is in it. Nothing else is ever replaced, but for what is empty.
"""

from __future__ import annotations

import contextlib
import fcntl
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
    """The export cannot be made there. The text is one line that says why and what to do."""


class SourceError(Failure):
    """What is to be exported is damaged, or part of it is missing. The text is one line that says what to do."""


def free_place(out: Path, job: Path, kind: str, names: Collection[str]) -> Path:
    """The absolute path of ``out``, outside of the job's directory. Raises ExportError unless it is missing, an empty
    directory, or an earlier export of this kind whose files have these names."""
    out = Path(os.path.abspath(out))
    check_outside(out, job)
    _check_free(out, kind, names)
    return out


def check_outside(out: Path, job: Path) -> None:
    """Raise ExportError if ``out`` is in the job's directory."""
    if out.resolve().is_relative_to(job.resolve()):
        raise ExportError(f"{out} is in the job's directory, which belongs to the program: name another place")


def free_file(out: Path, job: Path | None, is_earlier: Callable[[BinaryIO], bool]) -> Path:
    """The absolute path of ``out``, outside of the directory of the ``job``, if one is named. Raises ExportError unless
    it is missing, empty, or an earlier export by what ``is_earlier`` reads in it; OSError if it cannot be read."""
    out = Path(os.path.abspath(out))
    if job is not None:
        check_outside(out, job)
    if not out.parent.is_dir():
        raise ExportError(f"{out.parent} is not a directory: make it first")
    if not os.path.lexists(out):
        return out
    if out.is_symlink() or not out.is_file():
        raise ExportError(f"{out} exists and is not a file: name another file")
    with open(out, "rb") as stream:
        if out.stat().st_size and not is_earlier(stream):
            raise ExportError(f"{out} exists and is not an earlier export: name another file, or move it away")
    return out


def _check_free(out: Path, kind: str, names: Collection[str]) -> None:
    if not out.parent.is_dir():
        raise ExportError(f"{out.parent} is not a directory: make it first")
    if not os.path.lexists(out):
        return
    if not out.is_dir() or out.is_symlink():
        raise ExportError(f"{out} exists and is not a directory: name another directory")
    found = {path.name for path in out.iterdir()}
    if not found:
        return
    if _mark(out).get("export") != kind:
        raise ExportError(f"{out} exists and is not an earlier export: name another directory")
    strange = sorted(found - {MARK, *names})
    if strange:
        raise ExportError(f"{out} holds {strange[0]}, which no export has made: move it, or name another directory")


def _mark(out: Path) -> dict[str, Any]:
    try:
        mark = json.loads((out / MARK).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}


@contextlib.contextmanager
def made_beside(out: Path) -> Iterator[Path]:
    """A new directory beside ``out``. When the context ends without an exception, its files are made durable and it
    takes the place of ``out``; otherwise it is removed. Raises OSError."""
    disk = RealDisk()
    with _part_of(out) as part:
        yield part
        for path in part.iterdir():
            disk.sync_file(path)
        disk.sync_directory(part)
        _replace(disk, part, out)


@contextlib.contextmanager
def file_made_beside(out: Path) -> Iterator[Path]:
    """A new directory beside ``out``, for a file of its name and for whatever helps to make it. When the context ends
    without an exception, the file is made durable and takes the place of ``out``. The directory is removed. Raises
    OSError."""
    disk = RealDisk()
    with _part_of(out, 0o700) as part:
        yield part
        disk.sync_file(part / out.name)
        disk.replace(part / out.name, out)
        disk.sync_directory(out.parent)


@contextlib.contextmanager
def _part_of(out: Path, mode: int = 0o777) -> Iterator[Path]:
    """A new directory beside ``out``, removed at the end if it is still there. What an export left there that was
    killed is removed too."""
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
        # A directory with files in it cannot be renamed over: for a moment there is none.
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
    """Remove what an export left that was killed. One that still runs holds a lock."""
    for part in out.parent.glob(f".{_literal(out.name)}.*.part"):
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


def _literal(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
