"""A crawl of several machines has ended, and one of them is started again: by its unit, or by somebody who looks. What
the others have stays theirs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from crawler.cluster.member_options import no_seeds
from crawler.cluster.promotion import UNWANTED
from crawler.engine.lifecycle import Stop
from tests.cluster.members import Crawling
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until


def test_it_takes_nothing_over_and_ends(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> list[str]:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await to_the_end(a, b)
        asked, said = len(crawl.asked), list[str]()
        for pause in (0.0, 2 * UNWANTED, 0.0):  # a unit may start it again and again
            await asyncio.sleep(pause)
            alone = crawl.begin("b", home="b", seeds=no_seeds)
            result = await asyncio.wait_for(alone.task, 120.0)
            assert result.reason is Stop.FINISHED
            said += alone.said
        assert len(crawl.asked) == asked
        return said

    said = crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
    assert not any("taken over" in line or "forget-partition" in line for line in said)


def test_it_takes_over_what_is_gone_when_the_crawl_is_resumed_with_its_seeds(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)
    more = "http://h1.test/more"

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await to_the_end(a, b)
        shutil.rmtree(tmp_path / "a")
        crawl.pages = {**crawl.pages, more: "new"}
        crawl.seeds = (*crawl.seeds, more)
        await to_the_end(crawl.begin("b", home="b"))

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)
