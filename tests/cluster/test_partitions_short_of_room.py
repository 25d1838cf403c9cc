"""A crawl in partitions whose processes lack files or space: refused in time, or waiting, and then complete. Each
process says so once, however many partitions it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import begun, ended, in_two, records
from tests.program import crawler, running
from tests.small_disk import SmallDisk, small_disk

FULL = "No space left on device"
PAUSED = f"paused, nothing is lost: {FULL}; waiting for space"
NO_CHECKPOINT = f"no checkpoint was written (the journal has everything since the last one): {FULL}"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 48, 2_000) as mounted:
        yield mounted


def test_too_few_open_files_are_told_before_anything_is_made(tmp_path: Path) -> None:
    words = ("http://127.0.0.1:1/", "--job", tmp_path / "crawl", "--partitions", "2")
    with running(*words, limits={"NOFILE": 64}) as process:
        ran = ended(process)
    assert (ran.code, ran.err) == (
        2,
        "crawler: error: the limit on open files (ulimit -Hn) is 64: a crawl of 4 partitions needs at least 131\n",
    )
    assert not (tmp_path / "crawl").exists()


def test_a_disk_that_is_full_for_a_while_costs_nothing(tmp_path: Path, disk: SmallDisk) -> None:
    often = tmp_path / "often.toml"
    often.write_text("[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n")
    directory = disk.path / "crawl"
    words = in_two(directory, "--config", often)
    with Chain(8, 12, 0.1) as chain:
        with begun(chain, *words) as process:
            said = list[str]()
            disk.fill()
            # A process that pauses first writes no checkpoint then.
            while not all(any(text in line for line in said) for text in (PAUSED, NO_CHECKPOINT)):
                said.append(process.stderr.readline().decode())
                assert process.poll() is None, said
                disk.fill()
            process.kill()
            ran = ended(process)
            said += ran.err.splitlines()
        assert max(Counter(line.rstrip() for line in said).values()) <= 2, "each process says a line once"
        disk.fill()
        with running(*chain.seeds, *words) as process:
            first = process.stderr.readline().decode()
            assert FULL in first
            disk.free()
            ran = ended(process)
        assert ran.code == 0, first + ran.err
        assert max(Counter((first + ran.err).splitlines()).values()) <= 2
        assert records(directory) == Counter(dict.fromkeys(chain.pages, 1))
    assert crawler("verify", directory).code == 0
