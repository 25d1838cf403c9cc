"""Records in several files, most of them compressed, are one text: for the job that writes them and for all readers."""

from __future__ import annotations

import errno
import itertools
import json
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.inspect.record_stream import Tail
from crawler.job.checkpointer import drive
from crawler.job.found import Found
from crawler.job.output import OutputError, lines_of
from crawler.job.output.changes import Cursor
from crawler.job.output.page_files import PageFiles
from crawler.job.output.record_text import disk_size, read_text, text_size
from crawler.job.output.reverse_reader import line_before, lines_backwards
from crawler.job.records import Position
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.fetch.content_coding import zstd
from tests.faulty_disk import Fault, FaultyDisk
from tests.inspect.integrity.test_parts import URLS, finish, opened

LINES = [b"%d: %s\n" % (number, b"x" * (number * 7 % 40)) for number in range(40)]
TEXT = b"".join(LINES)
SIZE = 100


@contextmanager
def files(directory: Path, disk: FaultyDisk | RealDisk | None = None, size: int = SIZE) -> Iterator[PageFiles]:
    with closing(PageFiles(directory / "pages.jsonl", disk or RealDisk(), size)) as pages:
        pages.tidy()
        yield pages


def compressed(pages: PageFiles) -> int:
    """Compress what can be. Returns how many files that were."""
    for number in itertools.count():
        steps = list[object]()
        for step in pages.compression():
            steps.append(step())
        if not steps:
            return number
    raise AssertionError


def written(directory: Path, *, compress: int = 0) -> list[Position]:
    """All lines, and those before an offset settled and compressed."""
    with files(directory) as pages:
        positions = [pages.append(line) for line in LINES]
        pages.sync()
        pages.settle(compress)
        compressed(pages)
    return positions


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_positions_are_those_in_the_whole_text_before_and_after_compression(tmp_path: Path) -> None:
    positions = written(tmp_path)
    plain = names(tmp_path)
    assert len(plain) > 8
    assert [at.end for at in positions] == list(itertools.accumulate(map(len, LINES)))
    with files(tmp_path) as pages:
        pages.sync()
        assert compressed(pages) == 0, "no generation covers them"
        pages.settle(pages.end)
        assert compressed(pages) == len(plain) - 2, "all but the first and the last"
        assert pages.size == disk_size(pages.path)
        for _ in range(2):
            assert [pages.read(at) for at in positions] == LINES
            assert not pages.holds(positions[3]._replace(crc=1))
    packed = [f"pages-{number:06}.jsonl.zst" for number in range(1, len(plain) - 1)]
    assert names(tmp_path) == [*packed, f"pages-{len(plain) - 1:06}.jsonl", "pages.jsonl"]
    assert (tmp_path / "pages.jsonl").read_bytes() == b""
    whole = b"".join(zstd.decompress(path.read_bytes()) for path in sorted(tmp_path.glob("*.zst")))
    assert TEXT.startswith(whole)


@pytest.mark.parametrize("final", [0, len(TEXT) // 2, len(TEXT)])
def test_readers_see_one_text(tmp_path: Path, final: int) -> None:
    path, positions = tmp_path / "pages.jsonl", written(tmp_path, compress=final)
    offsets = [at.end - at.length for at in positions]
    assert text_size(path) == len(TEXT)
    assert list(lines_of(path)) == list(zip(offsets, LINES, strict=True))
    assert list(lines_of(path, offsets[20], offsets[9])) == list(zip(offsets[9:20], LINES[9:20], strict=True))
    found = [each for each in lines_backwards(path, offsets[30], piece=64) if each is not None]
    assert found == list(zip(offsets[:30], LINES[:30], strict=True))[::-1]
    assert line_before(path, offsets[7]) == LINES[6]
    read = b""
    while piece := read_text(path, 33, len(read)):
        read += piece
    assert read == TEXT


def test_a_file_is_begun_when_rotation_is_turned_on_and_goes_on_when_it_is_turned_off(tmp_path: Path) -> None:
    with files(tmp_path, size=0) as pages:
        pages.append(LINES[0])
    with files(tmp_path) as pages:
        pages.append(LINES[1])
    with files(tmp_path, size=0) as pages:
        for line in LINES[2:]:
            pages.append(line)
    assert names(tmp_path) == ["pages-000001.jsonl", "pages.jsonl"]
    assert [line for _, line in lines_of(tmp_path / "pages.jsonl")] == LINES


@pytest.mark.parametrize("lines", range(0, 41, 3))
def test_the_text_is_cut_anywhere_but_in_what_is_compressed(tmp_path: Path, lines: int) -> None:
    positions = written(tmp_path, compress=len(TEXT) // 3)
    end = sum(map(len, LINES[:lines]))
    with files(tmp_path) as pages:
        packed = sum(len(zstd.decompress(path.read_bytes())) for path in tmp_path.glob("*.zst"))
        assert 0 < packed <= len(TEXT) // 3
        if end < packed:
            with pytest.raises(OutputError, match="is compressed"):
                pages.cut(end)
            return
        pages.cut(end)
        assert pages.end == end
        assert [pages.holds(at) for at in positions] == [at.end <= end for at in positions]
        pages.write_again(packed)
        for line in LINES[lines:]:
            pages.append(line)
        pages.sync()
    assert [line for _, line in lines_of(tmp_path / "pages.jsonl")] == LINES


def test_a_cut_that_fails_leaves_each_file_to_be_closed_once(tmp_path: Path) -> None:
    written(tmp_path)
    disk = FaultyDisk(random.Random(1), Fault("unlink", 2))
    with files(tmp_path, disk) as pages, pytest.raises(OSError, match="Input/output error"):
        pages.cut(0)


def test_what_an_interrupted_compression_left_is_removed(tmp_path: Path) -> None:
    written(tmp_path)
    plain = (tmp_path / "pages-000002.jsonl").read_bytes()
    (tmp_path / "pages-000001.jsonl.zst.part").write_bytes(b"half of it")
    written_twice = tmp_path / "pages-000002.jsonl"
    with files(tmp_path) as pages:
        pages.settle(pages.end)
        compressed(pages)
    written_twice.write_bytes(plain)
    assert [line for _, line in lines_of(tmp_path / "pages.jsonl")] == LINES, "there are two of it for a moment"
    with files(tmp_path) as pages:
        assert pages.end == len(TEXT)
    assert not written_twice.exists()
    assert not list(tmp_path.glob("*.part"))


def test_a_disk_that_is_full_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    written(tmp_path)
    before = names(tmp_path)
    with files(tmp_path, FaultyDisk(random.Random(1), Fault("pwrite", 1, errno.ENOSPC))) as pages:
        pages.settle(pages.end)
        steps = pages.compression()
        try:
            for step in steps:
                step()
        except OSError as error:
            with pytest.raises(StopIteration):
                steps.throw(error)
        assert [path.stat().st_size for path in tmp_path.glob("*.part")] == [0]
        assert [name for name in names(tmp_path) if not name.endswith(".part")] == before
        assert compressed(pages) > 0, "it is tried again"
    assert [line for _, line in lines_of(tmp_path / "pages.jsonl")] == LINES


def test_tail_and_cursors_go_on_over_the_files(tmp_path: Path) -> None:
    job = opened(tmp_path / "job")
    directory = job.directory
    with closing(job):
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        finish(job, 5)
    tail = Tail(directory)
    first = [json.loads(line) for line in tail.changes()]
    assert [each["url"] for each in first] == URLS[:5]
    with closing(opened(directory)) as job:
        finish(job, 5)
        drive(job.checkpointer.checkpoint(1.0, whole=True))
        for step in job.files.outputs.pages.compression():
            step()
        end = job.files.outputs.pages.end
    assert list(directory.glob("pages-*.zst"))
    assert [json.loads(line)["url"] for line in tail.more()] == URLS[5:10]
    for number, each in enumerate(first, 1):
        again = Tail(directory)
        assert again.resume(each["cursor"])
        assert [json.loads(line)["url"] for line in again.changes()] == URLS[number:10]
        given = Tail(directory, end=lambda: end)
        assert given.resume(each["cursor"])
        line = next(given.changes())
        assert json.loads(line)["url"] == URLS[number]
        assert Cursor.parse(each["cursor"]).end > 0
    last = Tail(directory).last(2)
    assert last is not None
    assert [json.loads(line)["url"] for line in last] == URLS[8:10]
