"""The file that describes a crawl in partitions: written once, by one of several, and never misread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import PARTITIONS_MOST, Settings, SiteGroups
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.crawl_file import (
    CRAWL,
    MAGIC,
    VERSION,
    CrawlFile,
    begin_crawl_file,
    crawl_around,
    decode_crawl,
    encode_crawl,
    holds_crawl,
    partition_directories,
    partition_directory,
    read_crawl_file,
)
from crawler.job.directory import JobError
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.identity import shaping_of
from tests.test_docs import example

ONE = CrawlFile("news", "0" * 32, 2, bytes(range(16)), "2026-10-22", shaping_of(Settings()))


def test_the_example_of_the_format() -> None:
    crawl = decode_crawl(example("format-crawl.md", "crawl"), CRAWL)
    assert (crawl.name, crawl.partitions, crawl.secret) == ("news", 2, bytes(range(16)))
    assert crawl.shaping["seen"]["fpp"] == 0.001


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    st.integers(1, PARTITIONS_MOST),
    st.binary(min_size=16, max_size=40),
    st.booleans(),
    st.lists(st.tuples(st.text(), st.text())).map(tuple),
)
def test_what_is_written_is_read(name: str, partitions: int, secret: bytes, by_host: bool, groups: SiteGroups) -> None:
    crawl = replace(ONE, name=name, partitions=partitions, secret=secret, by_host=by_host, groups=groups)
    assert decode_crawl(encode_crawl(crawl), CRAWL) == crawl


@given(st.data())
def test_damage_is_refused(data: st.DataObject) -> None:
    whole = encode_crawl(ONE)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[place] ^= data.draw(st.integers(1, 255))
    for given_bytes in (bytes(damaged), whole[:place]):
        with pytest.raises(JobError):
            decode_crawl(given_bytes, CRAWL)


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 0},
        {"partitions": PARTITIONS_MOST + 1},
        {"partitions": "2"},
        {"secret": "AAAA"},
        {"secret": "not Base64"},
        {"by_host": "host"},
        {"shaping": {}},
        {"shaping": {"seen": []}},
        {"name": 7},
        {"groups": ["example.org"]},
        {"groups": [["example.org", 7]]},
    ],
)
def test_values_that_no_crawl_has_are_refused(change: dict[str, Any]) -> None:
    content = {
        "name": "a",
        "id": "0",
        "partitions": 2,
        "secret": "0" * 24,
        "suffixes": "1",
        "groups": [],
        "shaping": ONE.shaping,
        **change,
    }
    with pytest.raises(JobError, match=CRAWL):
        decode_crawl(encode_envelope(MAGIC, VERSION, content), CRAWL)


def test_another_version_is_refused_before_anything_else_is_read(tmp_path: Path) -> None:
    (tmp_path / CRAWL).write_bytes(f"{MAGIC} {VERSION + 1} anything\nwhat nobody knows".encode())
    with pytest.raises(JobError, match=f"version {VERSION + 1}"):
        read_crawl_file(tmp_path)


def test_of_several_that_begin_one_crawl_all_get_the_same(tmp_path: Path) -> None:
    directory, disk = tmp_path / "new" / "crawl", RealDisk()
    got = list[CrawlFile]()
    together = threading.Barrier(8)

    def begin(number: int) -> None:
        together.wait()
        got.append(begin_crawl_file(disk, directory, replace(ONE, id=f"{number:032}")))

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len({crawl.id for crawl in got}) == 1
    assert read_crawl_file(directory) == got[0]
    assert sorted(path.name for path in directory.iterdir()) == [CRAWL, "partitions"]
    assert (directory / CRAWL).stat().st_mode & 0o777 == 0o600
    assert (directory / "partitions").stat().st_mode & 0o777 == 0o700


def test_the_directories_of_partitions(tmp_path: Path) -> None:
    assert not holds_crawl(tmp_path)
    assert partition_directories(tmp_path) == []
    begin_crawl_file(RealDisk(), tmp_path, replace(ONE, partitions=200))
    for number in (100, 7, 11):
        with DurableFrontier(tmp_path / "alone", delay=0):
            pass
        (tmp_path / "alone").rename(partition_directory(tmp_path, number))
    assert [path.name for path in partition_directories(tmp_path)] == ["07", "11", "100"]
    assert crawl_around(tmp_path / "partitions" / "07") == tmp_path
    assert crawl_around(tmp_path) is None


def test_neither_a_crawl_nor_a_partition_is_taken_for_a_job(tmp_path: Path) -> None:
    begin_crawl_file(RealDisk(), tmp_path, ONE)
    for directory in (tmp_path, partition_directory(tmp_path, 1)):
        with pytest.raises(JobError, match="--partitions N"):
            DurableFrontier(directory)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CRAWL, "partitions"]
    assert not partition_directory(tmp_path, 1).exists()
