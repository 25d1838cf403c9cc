"""What is written when a run ends: ``--output wacz`` and ``--parquet``."""

from __future__ import annotations

import gzip
import json
import random
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiohttp import web

from tests.jobs import rows, verify
from tests.program import PATIENCE, crawler, running, wait_until
from tests.site import Site, linked, tree
from tests.small_disk import small_disk

OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--output", "wacz")
PAGES = 12
BLOBS = 8
BLOB = 2**22  # bytes: such an archive takes a while


@pytest.fixture
def site() -> Iterator[Site]:
    async def blob(_: web.Request) -> web.StreamResponse:
        return web.Response(body=random.randbytes(BLOB), content_type="application/octet-stream")

    blobs = {f"/blob/{number}": blob for number in range(BLOBS)}
    with Site({**tree(PAGES), "/large": linked(blobs), **blobs}) as served:
        yield served


def pages_of(archive: Path) -> set[str]:
    """The pages of an archive, each of which its index has."""
    with zipfile.ZipFile(archive) as package:
        assert package.testzip() is None
        pages = {json.loads(line)["url"] for line in package.read("pages/pages.jsonl").splitlines()[1:]}
        index = gzip.decompress(package.read("indexes/index.cdx.gz")).splitlines()
    assert {json.loads(line.split(b" ", 2)[2])["url"] for line in index} >= pages
    return pages


def left(job: Path) -> list[Path]:
    """What an export has left that did not end."""
    return list(job.glob(".*.part"))


def test_each_run_writes_all_that_the_job_has(site: Site, tmp_path: Path) -> None:
    job, tables = tmp_path / "job", tmp_path / "tables"
    archive = job / "archive.wacz"
    words = (site.url("/"), "--job", job, *OPTIONS, "--parquet", tables)
    for limit, pages in (("3", 3), ("100", PAGES)):
        ran = crawler(*words, "--max-pages", limit)
        assert ran.code == 0, ran.err
        assert {str(archive), str(tables)} <= {line.partition(":")[0] for line in ran.err.splitlines()}
        urls = {row["url"] for row in rows(job)}
        assert pages_of(archive) == urls
        assert set(pq.read_table(tables / "pages.parquet")["url"].to_pylist()) == urls
        assert len(urls) == pages
    assert verify(job).code == 0
    before = archive.stat()
    assert crawler(*words[:-4], "--output", "links").code == 0
    assert archive.stat() == before, "a run without it leaves it alone"
    assert crawler("backup", job, tmp_path / "copies").code == 0
    assert crawler("restore", tmp_path / "copies", tmp_path / "again").code == 0
    assert not (tmp_path / "again" / "archive.wacz").exists()


def test_a_run_that_is_interrupted_writes_it_too(tmp_path: Path) -> None:
    job = tmp_path / "job"
    (tmp_path / "crawl.toml").write_text('[output]\nkeep = ["wacz"]\n')
    with Site(tree(300), latency=0.05) as site:
        words = (site.url("/"), "--job", job, "--config", tmp_path / "crawl.toml", *OPTIONS[:-2], "--quiet")
        with running(*words) as process:
            wait_until(lambda: len(site.asked) > 20, "some pages")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
    assert pages_of(job / "archive.wacz") == {row["url"] for row in rows(job)}


def test_the_earlier_one_stays_until_the_new_one_is_whole(site: Site, tmp_path: Path) -> None:
    job = tmp_path / "job"
    archive = job / "archive.wacz"

    def run(*more: str) -> Any:
        return running(site.url("/"), site.url("/large"), "--job", job, *OPTIONS, "--quiet", *more)

    assert crawler(site.url("/"), "--job", job, *OPTIONS, "--quiet").code == 0
    before = archive.read_bytes()
    for number, code, litter in ((signal.SIGKILL, -signal.SIGKILL, 1), (signal.SIGINT, 130, 0), (None, 0, 0)):
        with run() as process:
            if number is not None:
                wait_until(lambda: any(job.glob(f".*.{process.pid}.part/*")), "it is being written")
                process.send_signal(number)
            assert process.wait(PATIENCE) == code
        assert len(left(job)) == litter
        assert (archive.read_bytes() == before) == (number is not None)
    assert len(pages_of(archive)) == PAGES + 1
    whole = archive.read_bytes()
    with running("export", job, "--wacz", archive, limits={"FSIZE": BLOB * 2}) as process:  # an error in the midst
        assert process.wait(PATIENCE) == 1
    assert (archive.read_bytes(), left(job), verify(job).code) == (whole, [], 0)


def test_a_disk_without_room_for_it(site: Site, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 128) as disk:
        job = disk.path / "job"
        words = (site.url("/large"), "--job", job, *OPTIONS, "--scope", "host")
        assert crawler(*words, "--max-pages", "2", "--quiet").code == 0
        before = (job / "archive.wacz").read_bytes()
        assert crawler(*words[:-4], "--output", "warc", "--quiet").code == 0
        disk.fill()
        disk.leave(BLOB * BLOBS // 2)
        ran = crawler(*words, "--quiet")
        assert ran.code == 1
        assert len(ran.err.splitlines()) == 1, ran.err
        assert str(job / "archive.wacz") in ran.err
        assert ((job / "archive.wacz").read_bytes(), left(job), verify(job).code) == (before, [], 0)


def test_what_is_no_archive_is_not_replaced(site: Site, tmp_path: Path) -> None:
    job = tmp_path / "job"
    assert crawler(site.url("/"), "--job", job, *OPTIONS[:-2], "--quiet").code == 0
    (job / "archive.wacz").write_text("mine")
    ran = crawler(site.url("/?more"), "--job", job, *OPTIONS)
    assert ran.code == 2
    assert (job / "archive.wacz").read_text() == "mine"
    assert site.count("/?more") == 0
