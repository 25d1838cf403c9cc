"""Workers agree on a crawl by its carrier, or one of them is refused before anything is changed."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from crawler import __version__
from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import CarrierRefusedError
from crawler.base.disk import RealDisk
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import (
    FetchSettings,
    PartitionSettings,
    PolitenessSettings,
    ScopeSettings,
    SeenSettings,
    Settings,
    SitesSettings,
    SiteTable,
)
from crawler.cluster.agreement import (
    CRAWL,
    IDENTITY,
    PRESENT,
    SETTINGS,
    Present,
    check_present,
    joined,
    keep_settings,
    kept_settings,
    passed_on,
    settings_of_crawl,
    shared_settings,
    shared_tables,
)
from crawler.cluster.crawl_directory import new_crawl
from crawler.cluster.stored_crawl import find_stored
from crawler.job.bucket.address import open_objects
from crawler.job.crawl_file import CrawlFile, encode_crawl, read_crawl_file
from crawler.job.directory import JobError

T = TypeVar("T")
NEWS = Settings(partitions=PartitionSettings(engine="memory", crawl="news", count=4))


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def test_who_joins_needs_the_same_directory_unless_the_crawl_lives_in_a_store(tmp_path: Path) -> None:
    async def several() -> None:
        carrier, disk = MemoryCarrier(), RealDisk()
        first = await joined(carrier, disk, tmp_path / "a", NEWS, "memory")
        given_no_count = replace(NEWS, partitions=replace(NEWS.partitions, count=None))
        assert await joined(carrier, disk, tmp_path / "a", given_no_count, "memory") == first
        with pytest.raises(CarrierRefusedError, match="another directory"):
            await joined(carrier, disk, tmp_path / "b", given_no_count, "memory")
        assert not (tmp_path / "b").exists()
        assert first.partitions == 4
        objects, carrier = open_objects(f"file:{tmp_path / 'store'}"), MemoryCarrier()
        stored = find_stored(objects, tmp_path / "c", NEWS, begins=True)
        first = await stored.join(carrier, disk, tmp_path / "c", NEWS, "memory")
        stored = find_stored(objects, tmp_path / "d", given_no_count, begins=False)
        other = await stored.join(carrier, disk, tmp_path / "d", given_no_count, "memory")
        assert other.id != first.id
        assert replace(other, id="") == replace(first, id="")

    now(several())


def test_a_directory_with_replicas_or_partitions_elsewhere_names_the_last_commit_that_runs_it(tmp_path: Path) -> None:
    def join() -> CrawlFile:
        return now(joined(MemoryCarrier(), RealDisk(), tmp_path, NEWS, "memory"))

    homes, replicas = tmp_path / "homes.json", tmp_path / "replicas"
    homes_of = '{{"00": "{}", "01": ["{}", 3]}}'
    own = join().id
    homes.write_text(homes_of.format(own, own))
    assert join().id == own
    homes.write_text(homes_of.format(own, "f" * 32))
    with pytest.raises(JobError, match="c980fa46"):
        join()
    homes.unlink()
    replicas.mkdir()
    with pytest.raises(JobError, match="c980fa46"):
        join()


ADDRESS_KEY = replace(NEWS, politeness=PolitenessSettings(host_key="address"))
BY_HOST = replace(
    NEWS,
    politeness=PolitenessSettings(host_key="domain"),
    partitions=replace(NEWS.partitions, placed_by="host"),
)


def with_groups(**groups: str) -> Settings:
    tables = tuple(SiteTable(match, group=group) for match, group in groups.items())
    return replace(NEWS, site=SitesSettings(tables))


GROUPED = with_groups(**{"*.one.org": "a", "two.org": "a"})
OF_A_PORT = with_groups(**{"one.org:8080": "a", "two.org": "a"})


@pytest.mark.parametrize("settings", [ADDRESS_KEY, BY_HOST, OF_A_PORT])
def test_gaps_that_could_not_hold_over_partitions_are_refused(tmp_path: Path, settings: Settings) -> None:
    async def begin(*before: Settings) -> None:
        carrier = MemoryCarrier()
        for each in before:
            await joined(carrier, RealDisk(), tmp_path / "first", each, "memory")
        known = await carrier.get([CRAWL], IDENTITY)
        with pytest.raises(JobError):
            await joined(carrier, RealDisk(), tmp_path / "b", settings, "memory")
        assert await carrier.get([CRAWL], IDENTITY) == known
        assert not (tmp_path / "b").exists()

    now(begin())
    now(begin(replace(NEWS, partitions=settings.partitions)))
    with pytest.raises(JobError):  # it goes on
        now(joined(MemoryCarrier(), RealDisk(), tmp_path / "first", settings, "memory"))


@pytest.mark.parametrize("settings", [ADDRESS_KEY, BY_HOST, OF_A_PORT, GROUPED])
def test_with_one_partition_each_gap_holds(tmp_path: Path, settings: Settings) -> None:
    alone = replace(settings, partitions=replace(settings.partitions, count=1))
    for _ in range(2):
        crawl = now(joined(MemoryCarrier(), RealDisk(), tmp_path / "a", alone, "memory"))
    assert crawl.groups == ()
    now(joined(MemoryCarrier(), RealDisk(), tmp_path / "a", replace(alone, site=SitesSettings()), "memory"))


def test_another_crawl_and_another_list_of_suffixes_are_refused(tmp_path: Path) -> None:
    async def meet(known: CrawlFile) -> None:
        carrier = MemoryCarrier()
        await carrier.put(CRAWL, {IDENTITY: encode_crawl(known)})
        await joined(carrier, RealDisk(), tmp_path / "a", NEWS, "memory")

    now(joined(MemoryCarrier(), RealDisk(), tmp_path / "a", NEWS, "memory"))
    mine = read_crawl_file(tmp_path / "a")
    now(meet(mine))
    with pytest.raises(CarrierRefusedError, match="is another crawl"):
        now(meet(new_crawl(NEWS)))
    with pytest.raises(CarrierRefusedError, match="public suffix list"):
        now(meet(replace(mine, suffixes="1999-12-31")))


@pytest.mark.parametrize(
    ("program", "apart", "alive", "about"),
    [
        (__version__, 0.0, True, None),
        (__version__, 30.0, True, None),
        ("0.0.1", 0.0, True, "crawler 0.0.1"),
        ("0.0.1", 0.0, False, None),
        (__version__, 7_200.0, True, "7200 seconds"),
        (__version__, -7_200.0, True, "7200 seconds"),
        (__version__, -7_200.0, False, None),
    ],
)
def test_who_does_not_fit_those_at_work_is_refused(program: str, apart: float, alive: bool, about: str | None) -> None:
    async def look() -> None:
        carrier, clock = MemoryCarrier(), 1_000_000.0

        async def beat(_: float = 0.0) -> None:
            """A worker says that it is there."""
            value = Present(program, clock + apart, str(asyncio.get_running_loop().time()))
            await carrier.put(CRAWL, {PRESENT: msgspec.json.encode(value)})

        async def nothing(_: float) -> None:
            """It has ended."""

        await beat()
        await check_present(carrier, lambda: clock, "memory", beat if alive else nothing)

    if about is None:
        now(look())
    else:
        with pytest.raises(CarrierRefusedError, match=about):
            now(look())


async def pass_on(value: bytes, *, needed: bool = True) -> dict[str, dict[str, Any]]:
    """What who joins reads of the settings that were put there."""
    carrier = MemoryCarrier()
    await carrier.put(CRAWL, {SETTINGS: value})
    return await settings_of_crawl(carrier, "memory", needed=needed)


def test_the_settings_of_the_crawl_reach_who_joins() -> None:
    settings = Settings(
        scope=ScopeSettings(exclude=("*.pdf",)),
        seen=SeenSettings(fpp=0.01),
        politeness=PolitenessSettings(rate=40.0),
        partitions=PartitionSettings(processes=3),
    )

    got = settings_from(now(pass_on(shared_settings(settings))))
    assert (got.scope, got.seen, got.politeness) == (settings.scope, settings.seen, settings.politeness)
    assert got.partitions == PartitionSettings(), "how many processes there are is a matter of each machine"
    for value in (b"", b"no zlib", zlib.compress(b"no JSON"), zlib.compress(b"[1]"), zlib.compress(b'{"crawl": 1}')):
        with pytest.raises(CarrierRefusedError):
            now(pass_on(value))
    with pytest.raises(CarrierRefusedError, match="knows no crawl"):
        now(settings_of_crawl(MemoryCarrier(), "memory"))


def test_what_the_carrier_has_lost_the_directory_knows(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tables = shared_tables(NEWS)
    assert kept_settings(tmp_path / "a") is None
    for each in (tables, {}, tables):
        keep_settings(RealDisk(), tmp_path / "a", each)
        assert kept_settings(tmp_path / "a") == each
        assert now(passed_on(MemoryCarrier(), "memory", each)) == each
    file = tmp_path / "a" / "settings.json"
    assert file.stat().st_mode & 0o777 == 0o600
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole.replace(b" 1 ", b" 2 ", 1), whole + b" "):
        file.write_bytes(damaged)
        with pytest.raises(JobError, match=r"settings\.json"):
            kept_settings(tmp_path / "a")


@pytest.mark.parametrize(
    "secret",
    [
        Settings(site=SitesSettings((SiteTable(match="a.test", headers=("Cookie: s3cret",)),))),
        Settings(fetch=FetchSettings(proxy_login="env:LOGIN")),
        Settings(scope=ScopeSettings(exclude=tuple(f"*{json.dumps(n)}{hash(n)}*" for n in range(60_000)))),
    ],
)
def test_secrets_and_what_is_too_long_stay_on_the_machine(secret: Settings) -> None:
    passed_on = shared_settings(replace(secret, politeness=PolitenessSettings(delay=7.0)))
    with pytest.raises(CarrierRefusedError, match="--config"):
        now(pass_on(passed_on))
    got = now(pass_on(passed_on, needed=False))
    assert not {"s3cret", "LOGIN"} & set(re.findall(r"\w+", str(got)))
    assert not got or got["politeness"]["delay"] == 7.0, "a worker's own configuration need not repeat the rest"
