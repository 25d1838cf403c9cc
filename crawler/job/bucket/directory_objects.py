"""An object store in a directory, which several machines may share.

An object is a file: ``runs/7`` of the store ``file:/srv/news`` is /srv/news/runs/7. It is written under a random name
in /srv/news/.part and made durable there. It then gets its final name by link(2), which fails if that name exists. An
object therefore has its whole content from the moment it is visible, and exactly one of several writers succeeds, on
NFS too. On NFS, ``get`` and ``list`` may miss an object for some seconds after another machine has put it; ``put``
never misses it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from crawler.base import entropy
from crawler.base.disk import CANNOT_LINK, Disk, RealDisk, failpoint, make_private_directory, read_regular, write_file
from crawler.base.printable import one_line
from crawler.job.bucket.objects import BucketDown, BucketError, Listed, check_key, check_prefix, is_key
from crawler.job.crawl_file import CRAWL
from crawler.job.directory import IDENTITY, OBJECT_PARTS

_DAY = 86_400  # seconds after which no living process is still writing a temporary file
# These errors last until a person intervenes. All others may pass: a full disk, an I/O error, an unreachable server.
_LASTING = CANNOT_LINK | {
    errno.EACCES,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    getattr(errno, "EKEYEXPIRED", errno.EACCES),  # Linux only
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EROFS,
}


class DirectoryObjects:
    """A store in a directory; see ``Objects``."""

    def __init__(self, directory: Path, disk: Disk | None = None, *, reading: bool = False) -> None:
        """The first put creates the directory; with ``reading``, it must exist and hold objects. Raises BucketError and
        BucketDown."""
        self.address = f"file:{directory}"
        self._directory = directory
        self._parts = directory / OBJECT_PARTS
        self._disk = RealDisk() if disk is None else disk
        self._durable: set[Path] = set()  # folders whose names this object has made durable
        with self._faults():
            self._missing = [path for path in (self._parts, *self._parts.parents) if not path.exists()]
            is_there = directory not in self._missing
            if reading and not is_there:
                raise BucketError(f"{self.address} does not exist")
            found = sorted(path.name for path in directory.iterdir() if path.name != "lost+found") if is_there else []
            if found and OBJECT_PARTS not in found:
                held = "a job" if IDENTITY in found or CRAWL in found else f"other files ({found[0]})"
                cure = "it is neither a store nor a backup" if reading else "use an empty directory"
                raise BucketError(f"{self.address} holds {held}: {cure}")
            if reading and not found:
                raise BucketError(f"{self.address} is empty: it holds no backup and no crawl")

    def put(self, key: str, data: bytes) -> bool:
        check_key(key)
        part = self._parts / entropy.random_bytes(16).hex()
        with self._faults():
            self._make()
            try:
                write_file(self._disk, part, data)
                failpoint("object.written")
                folder = self._make_folder(key)
                placed = self._link(part, self._directory / key)
            finally:
                with suppress(OSError):  # the file may not exist; one that is left over is removed a day later
                    self._disk.unlink(part)
            # Sync even if another process has put the object: the caller relies on the object, and that process may die
            # before it syncs.
            self._disk.sync_directory(folder)
        return placed

    def get(self, key: str) -> bytes | None:
        check_key(key)
        with self._faults():
            try:
                return read_regular(self._directory / key)
            except (FileNotFoundError, NotADirectoryError):
                self._check_there()
                return None

    def list(self, prefix: str) -> Iterator[Listed]:
        check_prefix(prefix)
        return self._walk(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        with self._faults():
            folders: set[Path] = set()
            for key in keys:
                with suppress(FileNotFoundError, NotADirectoryError):
                    self._disk.unlink(self._directory / key)
                    folders.add((self._directory / key).parent)
            for folder in folders:
                self._disk.sync_directory(folder)
            self._remove_old_parts()

    def _make(self) -> None:
        """Create the directory unless it has been there. Raises OSError."""
        if self._missing:
            make_private_directory(self._directory, parents=True, exist_ok=True)
            make_private_directory(self._parts, exist_ok=True)
            for path in self._missing:
                self._disk.sync_directory(path.parent)
            self._missing = []

    def _make_folder(self, key: str) -> Path:
        """Create the folder of a key. Raises OSError."""
        folder = self._directory
        for name in key.split("/")[:-1]:
            above, folder = folder, folder / name
            if folder not in self._durable:
                make_private_directory(folder, exist_ok=True)
                self._disk.sync_directory(above)  # even if the folder existed: its creator may not have synced
                self._durable.add(folder)
        return folder

    def _link(self, part: Path, target: Path) -> bool:
        """Give the temporary file its final name. Returns False if another file already has that name. Raises
        OSError."""
        try:
            self._disk.link(part, target)
        except OSError as error:
            # NFS repeats a request whose response was lost; the repetition fails because the link already exists.
            if _count_names(part) == 2:
                return True
            if isinstance(error, FileExistsError):
                return False
            raise
        return True

    def _walk(self, prefix: str) -> Iterator[Listed]:
        folders = [prefix.rpartition("/")[0]]
        with self._faults():
            self._check_there()
            while folders:
                folder = folders.pop()
                for entry in _entries(self._directory / folder):
                    key = f"{folder}/{entry.name}" if folder else entry.name
                    if not is_key(key):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if f"{key}/".startswith(prefix):
                            folders.append(key)
                    elif key.startswith(prefix) and (status := _regular(entry)) is not None:
                        yield Listed(key, status.st_size, status.st_mtime)

    def _remove_old_parts(self) -> None:
        """Remove the temporary files of processes that were killed. Raises OSError."""
        now = time.time()
        self._check_there()
        for entry in _entries(self._parts):
            if (status := _regular(entry)) is not None and status.st_mtime < now - _DAY:
                with suppress(FileNotFoundError):  # another process has removed it
                    self._disk.unlink(Path(entry.path))

    def _check_there(self) -> None:
        """Raise OSError if the directory is gone, for example because it is not mounted: otherwise every object would
        seem to be missing."""
        if not self._missing:
            os.stat(self._parts)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = one_line(error.strerror or str(error))
            if isinstance(error, FileNotFoundError):
                self._durable.clear()  # a key's folder may have been removed; the next put creates it again
                lasting = not os.path.isdir(self._parts)
            else:
                lasting = error.errno in _LASTING
            if not lasting:
                raise BucketDown(f"{self.address}: {reason}") from error
            raise BucketError(
                f"cannot use {self.address}: {reason}; use a directory that exists, is writable for this user, "
                "and is on a file system with hard links"
            ) from error


def _count_names(path: Path) -> int:
    """Return the number of hard links of a file. Opens the file, because an NFS client asks the server only then.
    Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(fd).st_nlink
    finally:
        os.close(fd)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; an empty list if there is no such folder. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _regular(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a regular file; None for anything else, and for a file that has just been removed. Raises
    OSError."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
