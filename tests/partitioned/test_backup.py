"""``crawler backup`` and ``crawler restore`` of a crawl of partitions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.job.home_register import Home, read_homes, write_homes
from tests.partitioned.crawls import Crawled, address_of, crawled, told
from tests.program import crawler, running, wait_until
from tests.site import Site, tree


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Crawled]:
    with crawled(tmp_path / "crawl", limits={1: 9}) as crawl:
        yield crawl


def test_a_crawl_is_restored_as_it_was(made: Crawled, tmp_path: Path) -> None:
    to, new = tmp_path / "backup", tmp_path / "restored"
    before = told("stats", made.directory)
    homes = {0: Home("0" * 32), 7: Home("f" * 32, 12)}
    write_homes(RealDisk(), made.directory, homes)
    first = told("backup", made.directory, to)
    assert (first["urls_admitted"], first["urls_pending"]) == (before["urls_admitted"], before["urls_pending"])
    again = told("backup", made.directory, to)
    assert (again["number"], again["bytes"]) == (2, first["bytes"])
    assert again["written_bytes"] < first["written_bytes"]
    ran = crawler("restore", to, new)
    assert ran.code == 0, ran.err
    after = told("stats", new)
    for key in ("urls_admitted", "urls_pending", "pages_fetched", "hosts"):
        assert after[key] == before[key]
    assert [line["state"] for line in after["partitions"]] == [line["state"] for line in before["partitions"]]
    assert told("verify", new)["whole"]
    assert (new / "crawl.json").read_bytes() == (made.directory / "crawl.json").read_bytes()
    assert read_homes(new) == homes
    assert (new / "crawl.json").stat().st_mode & 0o777 == 0o600
    assert (to / "crawl.json").stat().st_mode & 0o777 == 0o600
    assert crawler("tail", new, "--all").out == crawler("tail", made.directory, "--all").out


def refused(*words: str | Path) -> str:
    ran = crawler(*words)
    assert (ran.code, ran.out) == (2, ""), ran
    (line,) = ran.err.splitlines()
    return line


def test_a_crawl_that_runs_is_not_copied(made: Crawled, tmp_path: Path) -> None:
    with Site(tree(60), latency=0.3, address=(address_of(2), 0)) as site:
        options = ("--allow-private", "--delay", "0", "--per-host", "1", "--quiet")
        with running(site.url("/"), "--job", made.beside(2), *options):
            wait_until(lambda: told("stats", made.directory)["state"] == "running", "the crawl to run")
            assert "partition 02" in refused("backup", made.directory, tmp_path / "backup")
            assert not (tmp_path / "backup").exists()


def test_an_interrupted_backup_is_not_restored(made: Crawled, tmp_path: Path) -> None:
    """Its partitions may be of different moments."""
    to = tmp_path / "backup"
    assert crawler("backup", made.directory, to).code == 0
    os.chmod(made.part(1) / "job.json", 0)
    (made.part(1) / "job.json").rename(made.part(1) / "away")
    (made.part(1) / "job.json").write_text("damaged")
    assert crawler("backup", made.directory, to).code != 0
    assert "interrupted" in refused("restore", to, tmp_path / "new")
    assert not (tmp_path / "new" / "crawl.json").exists()
    os.replace(made.part(1) / "away", made.part(1) / "job.json")
    os.chmod(made.part(1) / "job.json", 0o600)
    assert crawler("backup", made.directory, to).code == 0
    assert crawler("restore", to, tmp_path / "new").code == 0


def test_foreign_directories_are_left_alone(made: Crawled, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("")
    refused("backup", made.directory, tmp_path / "photos")
    refused("backup", made.directory, made.directory / "inside")
    refused("backup", made.directory, made.directory)
    refused("restore", made.directory, tmp_path / "new")
    assert crawler("backup", made.directory, tmp_path / "backup").code == 0
    refused("restore", tmp_path / "backup", tmp_path / "photos")
    refused("restore", tmp_path / "backup", made.directory)
    with crawled(tmp_path / "other") as other:
        refused("backup", other.directory, tmp_path / "backup")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["a.jpg"]
