"""A directory that was copied while a worker works with it, and another worker that is given the copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crawler.job.directory import JobError
from tests.cluster.members import Crawling, chain
from tests.cluster.test_members import assert_complete, to_the_end, until_asked

PLACE = "a"


def crawling(directory: Path) -> Crawling:
    pages = chain(8, 8)
    return Crawling(directory, pages, 4, (next(iter(pages)),))


def test_who_is_given_a_copy_of_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home=PLACE)
        await until_asked(crawl, 10)
        shutil.copytree(tmp_path / PLACE, tmp_path / "copy")
        with pytest.raises(JobError, match="is a copy"):
            await crawl.begin("c", home=PLACE, directory="copy").task
        await to_the_end(first)

    crawl.live(test)
    shutil.rmtree(tmp_path / "copy")
    assert_complete(crawl)


def test_two_workers_with_one_directory_share_it(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        first = crawl.begin("a", home=PLACE)
        await until_asked(crawl, 10)
        await to_the_end(first, crawl.begin("c", home=PLACE))

    crawl.live(test)
    assert_complete(crawl)
