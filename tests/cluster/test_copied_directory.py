"""A directory that was copied while a worker works with it, and another worker that is given the copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crawler.job.directory import JobError
from tests.cluster.members import Crawling
from tests.cluster.test_moved import assert_complete
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until


def test_who_is_given_a_copy_of_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        shutil.copytree(tmp_path / "a", tmp_path / "copy")
        with pytest.raises(JobError):
            await crawl.begin("c", home="a", directory="copy").task
        await to_the_end(a, b)

    crawl.live(test)
    shutil.rmtree(tmp_path / "copy")
    assert_complete(crawl)


def test_a_copy_takes_the_place_of_a_directory_that_is_used_no_more(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await a.kill()
        shutil.move(tmp_path / "a", tmp_path / "kept")
        shutil.copytree(tmp_path / "kept", tmp_path / "a")
        await to_the_end(crawl.begin("c", home="a"), b)

    crawl.live(test)
    shutil.rmtree(tmp_path / "kept")
    assert_complete(crawl)


def test_two_workers_with_one_directory_share_it(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        again = crawl.begin("c", home="a")
        await to_the_end(a, b, again)

    crawl.live(test)
    assert_complete(crawl)
