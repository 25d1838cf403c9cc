"""Hosts of several domains that share a gap by the name of a group: all in one partition, which keeps the gap."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from crawler.base.settings.parts import SitesSettings, SiteTable
from crawler.engine.lifecycle import Stop
from tests.cluster.chain import Chain
from tests.cluster.members import SETTINGS, Crawling
from tests.cluster.test_crawl_in_partitions import begun, in_two
from tests.cluster.test_members import assert_complete, to_the_end, until_asked
from tests.program import PATIENCE, crawler

HOSTS = [f"h{number}.test" for number in range(20)]
GROUPS = {host: f"g{number % 3}" for number, host in enumerate(HOSTS[:12])}


def test_the_gap_of_a_group_holds_while_a_member_is_killed(tmp_path: Path) -> None:
    tables = tuple(SiteTable(host, group=group) for host, group in GROUPS.items())
    pages = {f"http://{host}/{number}": "<p>text" for host in HOSTS for number in range(3)}
    settings = replace(SETTINGS, site=SitesSettings(tables))
    crawling = Crawling(tmp_path, pages, seeds=tuple(pages), settings=settings)

    async def test(crawling: Crawling) -> list[Stop]:
        working = [crawling.begin(f"m{number}", expected=3) for number in range(3)]
        await until_asked(crawling, 20)
        await working[1].kill()
        working[1] = crawling.begin("m1")
        return await to_the_end(*working)

    assert crawling.live(test) == [Stop.FINISHED] * 3
    assert_complete(crawling)
    for group in set(GROUPS.values()):
        asked = sorted(
            (each for each in crawling.asked if GROUPS.get(each.href.split("/")[2]) == group),
            key=lambda each: each.begin,
        )
        assert len({each.href.split("/")[2] for each in asked}) == 4
        gaps = [later.begin - (earlier.end or earlier.begin) for earlier, later in pairwise(asked)]
        assert min(gaps) >= SETTINGS.politeness.delay - 1e-3


def test_a_gap_that_cannot_hold_is_refused_in_one_line_before_anything_is_made(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    words = ("http://127.0.0.1:9/", "--job", directory, "--partitions", "2", "--host-key", "address", "--quiet")
    ran = crawler(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert not directory.exists()


def test_neither_a_reload_nor_a_worker_changes_what_shares_a_gap(tmp_path: Path) -> None:
    directory, config, other = tmp_path / "crawl", tmp_path / "crawl.toml", tmp_path / "other.toml"
    config.write_text('[[site]]\nmatch = "127.0.7.1"\ngroup = "a"\n')
    other.write_text('[[site]]\nmatch = "127.0.7.1"\ngroup = "b"\n')
    with Chain(4, 40, 0.1) as chain, begun(chain, *in_two(directory), "--config", config, pages=4) as process:
        at = ("--engine", f"unix:{directory / 'carrier.sock'}", "--crawl", "crawl", "--dir", tmp_path / "new")
        ran = crawler("work", *at, "--config", other)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert not (tmp_path / "new").exists()
        for text in (other.read_text(), '[politeness]\nhost_key = "address"\n'):
            config.write_text(text)
            ran = crawler("reload", directory)
            assert ran.code == 2, ran
        assert process.poll() is None
        process.terminate()
        process.wait(PATIENCE)
    for text in (other.read_text(), '[politeness]\nhost_key = "address"\n'):
        config.write_text(text)
        ran = crawler(*chain.seeds, *in_two(directory), "--config", config)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
