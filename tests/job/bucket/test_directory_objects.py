"""What a store in a directory promises besides: whatever fails, an object is there whole or not at all."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crawler.base.disk import CRASH_AT, RealDisk
from crawler.job.bucket.directory_objects import DirectoryObjects
from crawler.job.bucket.objects import BucketDown, BucketError, put_own
from tests.faulty_disk import Fault, FaultyDisk
from tests.job.bucket.stores import every_call

PUT = "from crawler.job.bucket.address import open_objects; import sys; open_objects(sys.argv[1]).put('a/b', b'data')"
PASSING = [("open", errno.ENFILE), ("pwrite", errno.ENOSPC), ("pwrite", errno.EDQUOT), ("sync", errno.EIO)]
PASSING += [("link", errno.ESTALE), ("sync_directory", errno.EIO)]
LASTING = [("open", errno.EACCES), ("open", errno.EROFS), ("link", errno.EPERM)]


class LostAnswers(RealDisk):
    """NFS: the link is made, its answer is lost, and repeating it fails."""

    def __init__(self, number: int) -> None:
        self._number = number

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        raise OSError(self._number, os.strerror(self._number))


class Syncs(RealDisk):
    """Notes which directories were made durable."""

    def __init__(self) -> None:
        self.synced: set[Path] = set()

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.synced.add(path)


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_a_killed_writer_leaves_nothing_that_is_seen(tmp_path: Path) -> None:
    words, environment = [sys.executable, "-c", PUT, f"file:{tmp_path}"], {**os.environ, CRASH_AT: "object.written"}
    assert subprocess.run(words, env=environment, check=False).returncode == -signal.SIGKILL
    (left,) = files(tmp_path)
    objects = DirectoryObjects(tmp_path)
    assert list(objects.list("")) == []
    assert objects.get("a/b") is None
    objects.delete([])
    assert files(tmp_path) == {left}, "its writer may be alive"
    assert objects.put("a/b", b"other")
    os.utime(tmp_path / left, (0, 0))
    objects.delete([])
    assert files(tmp_path) == {"a/b"}


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO])
def test_a_link_whose_answer_was_lost_counts(tmp_path: Path, number: int) -> None:
    objects = DirectoryObjects(tmp_path, LostAnswers(number))
    assert objects.put("a/b", b"data")
    assert files(tmp_path) == {"a/b"}
    assert not DirectoryObjects(tmp_path).put("a/b", b"other")


@pytest.mark.parametrize(("operation", "number"), [*PASSING, *LASTING])
def test_a_fault_says_whether_repeating_helps_and_leaves_nothing(tmp_path: Path, operation: str, number: int) -> None:
    (tmp_path / ".part").mkdir()
    objects = DirectoryObjects(tmp_path, FaultyDisk(random.Random(1), Fault(operation, 1, number)))
    kind = BucketDown if (operation, number) in PASSING else BucketError
    with pytest.raises(kind, match=r"^[^\n]+\Z"):
        objects.put("a", b"data")
    assert files(tmp_path) == ({"a"} if operation == "sync_directory" else set())
    assert put_own(objects, "a", b"data")
    assert files(tmp_path) == {"a"}


def test_what_was_put_survives_a_power_cut(tmp_path: Path) -> None:
    for seed in range(20):
        disk = FaultyDisk(random.Random(seed))
        directory = tmp_path / str(seed)
        objects = DirectoryObjects(directory, disk)
        assert objects.put("a/b", b"data")
        assert objects.put("a/c", b"more")
        disk.lose_power()
        after = DirectoryObjects(directory)
        assert (after.get("a/b"), after.get("a/c")) == (b"data", b"more")


def test_the_folders_of_an_object_are_durable_whoever_made_them(tmp_path: Path) -> None:
    store = tmp_path / "made" / "store"
    disk = Syncs()
    objects = DirectoryObjects(store, disk)
    assert objects.get("a") is None
    assert list(objects.list("")) == []
    assert not (tmp_path / "made").exists()
    objects.put("a-first", b"")
    assert disk.synced == {tmp_path, tmp_path / "made", store}
    (store / "a").mkdir()
    disk.synced.clear()
    objects.put("a/b/c", b"")
    assert disk.synced == {store, store / "a", store / "a" / "b"}


def test_files_of_others_are_no_objects(tmp_path: Path) -> None:
    objects = DirectoryObjects(tmp_path)
    objects.put("a/b", b"")
    for name in (".nfs0001", "a/.hidden", "a/b c"):
        (tmp_path / name).touch()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "b")
    assert [each.key for each in objects.list("")] == ["a/b"]


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    objects = DirectoryObjects(tmp_path)
    objects.put("a/b", b"")
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(BucketDown):
        objects.put("a/b", b"")
    assert objects.put("a/b", b"")


def test_a_directory_that_has_gone_is_no_empty_one(tmp_path: Path) -> None:
    objects = DirectoryObjects(tmp_path / "mounted")
    objects.put("a", b"")
    os.rename(tmp_path / "mounted", tmp_path / "elsewhere")
    (tmp_path / "mounted").mkdir()  # where nothing is mounted now
    for call in every_call(objects):
        with pytest.raises(BucketError):
            call()


def test_a_file_in_place_of_a_folder_is_a_fault_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BucketError, match=r"^[^\n]+$"):
            DirectoryObjects(directory).put("below", b"")
    with pytest.raises(BucketError):
        DirectoryObjects(tmp_path).put("file/below", b"")


def test_objects_are_private(tmp_path: Path) -> None:
    DirectoryObjects(tmp_path / "store").put("a/b", b"")
    modes = [(tmp_path / "store" / name).stat().st_mode & 0o777 for name in (".", ".part", "a", "a/b")]
    assert modes == [0o700, 0o700, 0o700, 0o600]
