"""A partition whose only directory is gone: it begins again when somebody says so, and only then."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from crawler.base.figures import listed, noun
from crawler.cluster.forgetting import forget_partitions
from crawler.cluster.member_options import Crawl
from crawler.cluster.partition_opening import Opening
from crawler.cluster.promotion import UNWANTED
from crawler.job.directory import JobError
from crawler.job.platform import Platform
from tests.cluster.members import SECRET, Crawling, chain
from tests.cluster.test_replicas import begin_both, in_step, to_the_end, until
from tests.durability.power import Inline
from tests.jobs import rows


async def forget(crawl: Crawling, home: str, *numbers: int) -> list[str]:
    """Returns what is said."""
    said = list[str]()
    whole = Crawl(crawl.directory / home, crawl.partitions, SECRET, home, replicas=crawl.replicas)
    whole.directory.mkdir(exist_ok=True)
    settings = whole.settings_of_partition(crawl.settings)
    opening = Opening(whole, Platform(executor=Inline), crawl.clock, lambda: settings)
    await forget_partitions(crawl.carrier, opening, numbers, crawl.clock, said.append)
    return said


HUB = "http://h0.test/hub"


def with_hub(tmp_path: Path, each: int, replicas: int = 0) -> Crawling:
    """A crawl of a chain of pages, so many on ``each`` host, to all of which a hub has links."""
    chains = chain(12, each)
    pages = {HUB: "".join(f'<a href="{href}">' for href in chains), **chains}
    return Crawling(tmp_path, pages, 4, (HUB,), replicas=replicas)


def test_it_begins_again_from_links_that_come_and_the_crawl_ends(tmp_path: Path) -> None:
    crawl = with_hub(tmp_path, 4)

    async def test(crawl: Crawling) -> list[int]:
        a, b = begin_both(crawl)
        await until(lambda: len(b.member.runs) > 0 and len(crawl.asked) > 20)
        lost = sorted(b.member.runs)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        with pytest.raises(JobError, match="is not gone"):
            await forget(crawl, "c", *lost, *a.member.runs)
        assert not (tmp_path / "c" / "partitions").exists(), "all or nothing"
        await asyncio.sleep(12.0)
        (said,) = await forget(crawl, "c", *lost)
        assert said.startswith(f"{noun(len(lost), 'partition')} {listed(lost)} restart")
        await to_the_end(a, crawl.begin("c", home="c"))
        return lost

    lost = crawl.live(test)
    recorded = crawl.recorded()
    assert set(recorded.values()) == {1}
    assert {int(path.name) for path in (tmp_path / "c" / "partitions").iterdir()} == set(lost)
    kept = {asked.href for asked in crawl.asked}
    assert set(recorded) <= kept
    assert HUB in recorded or 0 in lost


def pages_of(directory: Path) -> list[str]:
    return [row["url"] for row in rows(directory)]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["forgets all", "knows that it lacks a step"])
def test_it_resumes_from_a_replica_in_the_directory_that_is_not_in_step(tmp_path: Path, engine: str) -> None:
    """Nothing says any more that it has all that was promised, so it is not promoted; and it is better than nothing."""
    crawl = with_hub(tmp_path, 12, replicas=1)

    async def test(crawl: Crawling) -> int:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b) and len(b.member.runs) > 0 and len(crawl.asked) > 40)
        lost = sorted(b.member.runs)
        if engine == "forgets all":
            await asyncio.gather(a.kill(), b.kill())
            crawl.holdings.forget()
        else:
            await a.kill()
            await until(lambda: not any(lag.in_step for lag in b.member.replicas))
            await b.kill()
        had = sum(len(pages_of(tmp_path / "b" / "partitions" / f"{number:02}")) for number in lost)
        has = {number: pages_of(tmp_path / "a" / "replicas" / f"{number:02}") for number in lost}
        shutil.rmtree(tmp_path / "b")
        a = crawl.begin("a", home="a")
        await asyncio.sleep(30.0)
        assert not a.member.runs.keys() & set(lost), "they wait for somebody to decide"
        await a.stop()
        (said,) = await forget(crawl, "a", *lost)
        assert said.startswith(f"{noun(len(lost), 'partition')} {listed(lost)} resume")
        assert "restart" not in said
        assert [pages_of(tmp_path / "a" / "partitions" / f"{number:02}") for number in lost] == list(has.values())
        await to_the_end(crawl.begin("a", home="a"))
        return had - sum(map(len, has.values()))

    missed = crawl.live(test)
    assert set(crawl.recorded().values()) == {1}
    if engine == "forgets all":
        assert missed == 0
        assert crawl.recorded() == dict.fromkeys(crawl.pages, 1), "it had all that was promised"
    assert crawl.shortest_gap() >= crawl.settings.politeness.delay


@pytest.mark.long
@pytest.mark.parametrize("is_wanted", [True, False], ids=["it is to follow", "nobody asks for it"])
def test_what_it_had_before_is_kept_when_its_directory_comes_back_after_all(tmp_path: Path, is_wanted: bool) -> None:
    """It is the only place of the pages that were fetched until then."""
    crawl = with_hub(tmp_path, 90, replicas=1)

    async def test(crawl: Crawling) -> list[str]:
        a, b = begin_both(crawl)
        await until(lambda: len(b.member.runs) > 0 and len(crawl.asked) > 60)
        lost = sorted(b.member.runs)
        await b.kill()
        await a.kill()
        (tmp_path / "b").rename(tmp_path / "kept")
        shutil.rmtree(tmp_path / "a" / "replicas")
        had.update(url for number in lost for url in pages_of(tmp_path / "kept" / "partitions" / f"{number:02}"))
        a = crawl.begin("a", home="a")
        await asyncio.sleep(12.0)
        await forget(crawl, "c", *lost)
        c = crawl.begin("c", home="c")
        await until(lambda: len(c.member.runs) == len(lost))
        if is_wanted:
            await a.stop()
        else:
            await until(lambda: in_step(a, c))
        (tmp_path / "kept").rename(tmp_path / "b")
        b = crawl.begin("b", home="b")
        await asyncio.sleep(UNWANTED + 10.0)
        if is_wanted:
            a = crawl.begin("a", home="a")
        await to_the_end(a, b, c)
        return b.said

    had = set[str]()
    crawl.live(test)
    assert had
    formers = list((tmp_path / "b" / "replicas").glob("*.former-1"))
    assert formers
    assert had <= {url for former in formers for url in pages_of(former)}
    assert set(crawl.recorded().values()) == {1}
