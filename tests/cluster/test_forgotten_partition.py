"""A partition whose only directory is gone: it begins again when somebody says so, and only then."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from crawler.base.figures import listed, noun
from crawler.cluster.forgetting import forget_partitions
from crawler.cluster.member_options import Crawl, no_seeds
from crawler.cluster.partition_opening import Opening
from crawler.cluster.promotion import UNWANTED
from crawler.cluster.seats import MEMBER, Seated
from crawler.job.directory import JobError
from crawler.job.platform import Platform
from tests.cluster.members import SECRET, SETTINGS, Crawling, chain
from tests.cluster.test_replicas import begin_both, crawling, in_step, to_the_end, until
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


def test_it_restarts_empty_beside_a_replica_that_cannot_be_opened(tmp_path: Path) -> None:
    crawl = with_hub(tmp_path, 12, replicas=1)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b) and len(b.member.runs) > 0 and len(crawl.asked) > 40)
        (number, *others) = sorted(b.member.runs)
        await asyncio.gather(a.kill(), b.kill())
        crawl.holdings.forget()
        shutil.rmtree(tmp_path / "b")
        replica = tmp_path / "a" / "replicas" / f"{number:02}"
        (replica / "store" / "CURRENT").write_text("no manifest\n")
        damaged, *said = await forget(crawl, "a", number, *others)
        assert damaged.startswith(f"{replica} cannot be opened, and does not become partition {number}: ")
        assert said[-1].startswith(f"partition {number} restarts empty")
        await to_the_end(crawl.begin("a", home="a"))
        assert replica.exists(), "somebody may repair it"

    crawl.live(test)
    assert set(crawl.recorded().values()) == {1}


def test_a_replica_that_a_worker_has_is_not_taken_from_it(tmp_path: Path) -> None:
    crawl = with_hub(tmp_path, 12, replicas=1)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b) and len(b.member.runs) > 0)
        (number, *_) = sorted(b.member.runs)
        await b.kill()
        crawl.holdings.forget()
        with pytest.raises(JobError, match="stop it first"):
            await forget(crawl, "a", number)
        await to_the_end(a, crawl.begin("b", home="b"))

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


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
    said = crawl.live(test)
    assert had
    formers = list((tmp_path / "b" / "replicas").glob("*.former-1"))
    assert formers
    assert sum("are kept in" in line for line in said) == len(formers)
    assert had <= {url for former in formers for url in pages_of(former)}
    assert set(crawl.recorded().values()) == {1}


def test_without_replicas_it_is_kept_too(tmp_path: Path) -> None:
    crawl = with_hub(tmp_path, 90, replicas=0)

    async def test(crawl: Crawling) -> list[str]:
        a, b = begin_both(crawl)
        await until(lambda: len(b.member.runs) > 0 and len(crawl.asked) > 60)
        lost = sorted(b.member.runs)
        await b.kill()
        (tmp_path / "b").rename(tmp_path / "kept")
        had.update(url for number in lost for url in pages_of(tmp_path / "kept" / "partitions" / f"{number:02}"))
        await asyncio.sleep(12.0)
        await forget(crawl, "c", *lost)
        c = crawl.begin("c", home="c")
        await until(lambda: len(c.member.runs) == len(lost))
        (tmp_path / "kept").rename(tmp_path / "b")
        b = crawl.begin("b", home="b")
        await to_the_end(a, b, c)
        return b.said

    had = set[str]()
    said = crawl.live(test)
    formers = list((tmp_path / "b" / "replicas").glob("*.former-1"))
    assert had
    assert had <= {url for former in formers for url in pages_of(former)}
    assert sum("are kept in" in line for line in said) == len(formers)


def test_nothing_is_forgotten_of_a_crawl_that_has_just_ended(tmp_path: Path) -> None:
    """All workers have left, and their directories are there."""
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        had = sorted(b.member.runs)
        await to_the_end(a, b)
        for number in had:
            with pytest.raises(JobError, match="ended"):
                await forget(crawl, "c", number)
        assert not (tmp_path / "c" / "partitions").exists()

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_a_worker_that_is_busy_for_some_seconds_has_its_partitions(tmp_path: Path) -> None:
    """Opening large partitions, it says only now and then that it is there."""
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        await asyncio.sleep(3.0)  # its replicas say what they have each second
        had = sorted(b.member.runs)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        said = await crawl.carrier.get(["w0", "w1"], MEMBER)
        seat = next(name for name, value in zip(("w0", "w1"), said, strict=True) if value and b"a" in value)
        await a.kill()
        await asyncio.sleep(12.0)
        forgetting = asyncio.ensure_future(forget(crawl, "c", *had))
        for beats in range(1_000, 1_003):
            await asyncio.sleep(4.0)
            await crawl.carrier.put(seat, {MEMBER: msgspec.msgpack.encode(Seated("a", "a", beats))})
        with pytest.raises(JobError, match="whole replica"):
            await forgetting

    crawl.live(test)


def in_a_scope(directory: Path) -> Crawling:
    """A crawl that knows its scope by its seeds. The last page of each host is reached by any of its own."""
    hosts, last = [f"h{number}.test" for number in range(8)], 40
    pages = {
        f"http://{host}/{number}": f'<a href="/{number + 1}"><a href="http://{other}/{number + 1}">'
        for host, other in zip(hosts, [*hosts[1:], hosts[0]], strict=True)
        for number in range(last)
    }
    pages |= {f"http://{host}/{last}": "the last one" for host in hosts}
    settings = replace(SETTINGS, crawl=replace(SETTINGS.crawl, scope="host"))
    seeds = tuple(f"http://{host}/0" for host in hosts)
    return Crawling(directory, pages, 4, seeds, settings)


LAST = {f"http://h{number}.test/40" for number in range(8)}


def test_it_learns_the_scope_again(tmp_path: Path) -> None:
    crawl = in_a_scope(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: len(a.member.runs) > 0 and len(b.member.runs) > 0 and len(crawl.asked) > 40)
        kept, burnt = (a, b) if 0 in a.member.runs else (b, a)
        lost = sorted(burnt.member.runs)
        await burnt.kill()
        shutil.rmtree(tmp_path / burnt.member.name)
        await asyncio.sleep(12.0)
        await forget(crawl, "c", *lost)
        await to_the_end(kept, crawl.begin("c", home="c"))

    crawl.live(test)
    assert crawl.recorded().keys() >= LAST


def test_one_that_has_a_whole_replica_is_not_forgotten(tmp_path: Path) -> None:
    crawl = crawling(tmp_path)

    async def test(crawl: Crawling) -> None:
        a, b = begin_both(crawl)
        await until(lambda: in_step(a, b))
        had = sorted(b.member.runs)
        await b.kill()
        shutil.rmtree(tmp_path / "b")
        with pytest.raises(JobError, match="whole replica"):
            await forget(crawl, "c", *had)
        with pytest.raises(JobError, match="there is no partition 4"):
            await forget(crawl, "c", crawl.partitions)
        await to_the_end(a)

    crawl.live(test)
    assert crawl.recorded() == dict.fromkeys(crawl.pages, 1)


def test_the_one_that_reads_the_seeds_learns_the_scope_from_others(tmp_path: Path) -> None:
    crawl = in_a_scope(tmp_path)

    async def test(crawl: Crawling) -> None:
        with_seeds = crawl.begin("b", expected=2, home="b")
        other = crawl.begin("a", expected=2, home="a", seeds=no_seeds)
        await until(lambda: len(other.member.runs) > 0 and len(with_seeds.member.runs) > 0 and len(crawl.asked) > 40)
        lost = sorted(with_seeds.member.runs)
        assert 0 in lost
        assert len(lost) < crawl.partitions
        await with_seeds.kill()
        shutil.rmtree(tmp_path / "b")
        await asyncio.sleep(12.0)
        await forget(crawl, "c", *lost)
        without = crawl.begin("c", home="c", seeds=no_seeds)
        await until(lambda: crawl.recorded().keys() >= LAST)
        await until(lambda: any("give the command that began the crawl again" in line for line in without.said))
        await without.stop()
        await to_the_end(other, crawl.begin("d", home="c"))

    crawl.live(test)
    assert crawl.recorded().keys() >= LAST


def test_if_nobody_knows_the_scope_it_is_said_what_to_do(tmp_path: Path) -> None:
    crawl = in_a_scope(tmp_path)

    async def test(crawl: Crawling) -> None:
        alone = crawl.begin("b", home="b")
        await until(lambda: len(alone.member.runs) == crawl.partitions and len(crawl.asked) > 40)
        await alone.kill()
        shutil.rmtree(tmp_path / "b")
        (tmp_path / "c").mkdir()
        await asyncio.sleep(12.0)
        assert await forget(crawl, "c", *range(crawl.partitions)) == [
            f"partitions 0, 1, 2 and 3 restart empty in {tmp_path / 'c'}: incoming links refill them"
        ]
        without = crawl.begin("c", home="c", seeds=no_seeds)
        await until(lambda: any("give the command that began the crawl again" in line for line in without.said), 60.0)
        await without.stop()
        await to_the_end(crawl.begin("d", home="c"))

    crawl.live(test)
    assert crawl.recorded().keys() == crawl.pages.keys()
