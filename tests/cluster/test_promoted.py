"""A home that burns: another one goes on with its replicas, in virtual time."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tests.cluster.members import Crawling
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until


def test_the_crawl_goes_on_where_the_replicas_are(tmp_path: Path) -> None:
    crawl = crawling(tmp_path, each=8)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(2.0)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        await to_the_end(a)
        assert any("goes on here with its replica" in line for line in a.said)

    crawl.live(test)
    assert not (tmp_path / "b").exists()
    recorded = crawl.recorded()
    assert recorded == dict.fromkeys(crawl.pages, 1)
