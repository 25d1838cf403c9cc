"""Crawls of a site that makes up URLs without end: they end, with every real page, and the records name the rules."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.disk.failpoints import VARIABLE
from crawler.base.kv import Family
from crawler.base.settings import SeenSettings, TrapSettings
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.job.store import RocksStore
from crawler.seen.exact import LEDGER_COUNTS, LedgerCounts
from tests.jobs import repair, verify
from tests.laboratory import Laboratory
from tests.program import crawler
from tests.site import Site, linked

REAL = {
    "/": linked(["/about", "/calendar/1", "/shop", "/deep/", "/sid?page=1&sid=0", "/list", "/product/1"]),
    "/about": linked(["/"]),
    "/shop": linked([f"/product/{n}" for n in range(1, 20)]),
    "/list": linked([f"/list?page={n}" for n in range(1, 10)]),
    **{f"/product/{n}": linked(["/shop"]) for n in range(1, 20)},
    **{f"/list?page={n}": linked(["/list"]) for n in range(1, 10)},
}
TRAPS = """
[traps]
max_variants = 25
max_segments = 12
max_records = 6
soft404 = false
"""


class Endless(dict[str, str]):
    """Real pages, and behind some of their links pages without end."""

    def get(self, path: str, default: Any = None) -> Any:
        real = super().get(path)
        if real is not None:
            return real
        if day := re.fullmatch(r"/calendar/(\d+)", path):
            return linked([f"/calendar/{int(day[1]) + 1}", f"/calendar/{int(day[1]) + 2}", "/"])
        if session := re.fullmatch(r"/sid\?page=\d&sid=(\d+)", path):
            return linked([f"/sid?page={page}&sid={7 * int(session[1]) + page}" for page in range(5)])
        # Answered with 200 and links that lead further down, wherever one comes from.
        if path.startswith("/deep/"):
            return linked(["more/", "again/"])
        return default


def rows(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]


def path_of(row: dict[str, Any]) -> str:
    return "/" + row["url"].split("/", 3)[3]


def crawl(tmp_path: Path, site: Site, *words: str, at: str = "") -> int:
    (tmp_path / "crawl.toml").write_text(TRAPS)
    (tmp_path / "seeds").write_text(site.url("/") + "\n")
    common = ("--job", tmp_path / "job", "--allow-private", "--ignore-robots", "--delay", "0", "--per-host", "4")
    line = ("crawl", tmp_path / "seeds", "--config", tmp_path / "crawl.toml", *common, *words)
    return crawler(*line, env={VARIABLE: at}).code


@pytest.mark.parametrize(
    "kills",
    [(), ("step.recorded:30", "step.marked:25", "step.written:20", "step.recorded:12")],
    ids=["whole", "killed"],
)
def test_a_crawl_of_traps_ends_with_every_real_page(tmp_path: Path, kills: tuple[str, ...]) -> None:
    with Site(Endless(REAL)) as site:
        for kill in kills:
            assert crawl(tmp_path, site, at=kill) == -signal.SIGKILL
        assert crawl(tmp_path, site) == 0
    done = rows(tmp_path / "job")
    fetched = {path_of(row) for row in done if row["outcome"] == "fetched"}
    assert set(REAL) <= fetched
    assert len(done) == len({row["url"] for row in done})

    excluded = [row for row in done if row["outcome"] == "excluded"]
    assert all(row["status"] is None and row["via"] for row in excluded)
    rules = Counter(row["error"] for row in excluded)
    assert rules["traps.max_variants: more than 25 URLs like /calendar/#"] == 2, "the last pages link to two more"
    assert rules["traps.max_variants: more than 25 URLs like /sid?page&sid"] >= 6
    repeats = sum(times for rule, times in rules.items() if rule.startswith("traps.max_repeats: the segment"))
    segments = sum(times for rule, times in rules.items() if rule.startswith("traps.max_segments: 13 segments"))
    assert repeats >= 6
    assert repeats + segments + 6 + 2 <= len(excluded) <= 60, "a trap writes a bounded number of records"
    assert sum(path.startswith("/calendar/") for path in fetched) == 25
    assert not any(path_of(row) in fetched for row in excluded)

    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert stats["links_trapped"] > 0
    assert stats["urls_excluded"] == len(excluded)
    assert stats["urls_pending"] == 0
    assert crawler("verify", tmp_path / "job").code == 0


def test_damaged_counts_are_named_and_repaired(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with Site(Endless(REAL)) as site:
        assert crawl(tmp_path, site, "--max-pages", "40") == 3
        store = RocksStore(job / "store")
        batch = store.batch()
        (key, value), (other, _), *_ = store.scan(Family.TRAPS, b"n", b"o")
        batch.put(Family.TRAPS, key, value + b"?")
        batch.delete(Family.TRAPS, other)
        batch.put(Family.CONTENT, b"no mark", b"http://h.test/")
        store.write(batch)
        store.close()
        assert verify(job).kinds >= {"trap-damaged", "trap-count", "copy-damaged"}
        repaired = repair(job)
        assert repaired.code == 0, repaired
        assert repaired.find("rows-removed", family="traps", count=1)
        assert repaired.find("rows-removed", family="content", count=1)
        assert crawler("verify", job).code == 0
        assert crawl(tmp_path, site) == 0
    assert set(REAL) <= {path_of(row) for row in rows(job) if row["outcome"] == "fetched"}


class Soft(dict[str, str]):
    """A site that answers what it does not have with one page, whose links lead on."""

    def get(self, path: str, default: Any = None) -> Any:
        real = super().get(path)
        return linked(["lost/", "gone/"]) if real is None and path != "/robots.txt" else real


def test_a_site_without_a_404_ends_when_the_links_of_copies_are_left_alone(tmp_path: Path) -> None:
    real = {"/": linked(["/a", "/b", "/missing/"]), "/a": linked(["/c"]), "/b": linked(["/c"]), "/c": linked([])}
    (tmp_path / "crawl.toml").write_text(
        "[traps]\nduplicates = 'skip-links'\nmax_segments = 0\nmax_repeats = 0\nsoft404 = false\n"
    )
    (tmp_path / "seeds").write_text("")
    with Site(Soft(real)) as site:
        (tmp_path / "seeds").write_text(site.url("/") + "\n")
        ran = crawler(
            *("crawl", tmp_path / "seeds", "--config", tmp_path / "crawl.toml", "--job", tmp_path / "job"),
            *("--allow-private", "--ignore-robots", "--delay", "0"),
        )
        assert ran.code == 0, ran.err
    done = {path_of(row): row for row in rows(tmp_path / "job")}
    beyond = {f"/missing/{first}/{second}/" for first in ("lost", "gone") for second in ("lost", "gone")}
    assert set(done) == {*real, "/missing/", "/missing/lost/", "/missing/gone/", *beyond}
    first = next(row for row in done.values() if row["url"].endswith("/missing/"))
    for path in ("/missing/lost/", "/missing/gone/"):
        assert done[path]["digest"] == first["digest"]
        assert done[path]["duplicate_of"] == first["url"]
    assert "duplicate_of" not in first
    for path in beyond:
        assert done[path]["outcome"] == "excluded"
        assert done[path]["error"] == f"traps.duplicates: on a page that says the same as {first['url']}"
        assert done[path]["via"] in (done["/missing/lost/"]["url"], done["/missing/gone/"]["url"])
    twins = [done[path] for path in ("/a", "/b")]
    assert sum("duplicate_of" in row for row in twins) == 1
    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert (stats["pages_copies"], stats["links_of_copies"]) == (3, 5)
    assert crawler("verify", tmp_path / "job").code == 0


@pytest.mark.parametrize("most", [0, 5])
def test_links_of_copies_are_counted_only_where_a_host_has_had_its_records(most: int, tmp_path: Path) -> None:
    same = linked(["one/", "two/", "three/"])
    pages = {f"http://a.test/{path}": same for path in ("", "x/", "y/", "z/", "w/")}
    pages["http://a.test/start"] = linked(["/", "/x/", "/y/", "/z/", "/w/", "/late"])
    pages["http://a.test/late"] = linked(["/w/three/"])
    lab = Laboratory(tmp_path / "job", pages)
    traps = TrapSettings(duplicates="skip-links", max_records=most)
    lab.settings = replace(lab.settings, traps=traps, crawl=replace(lab.settings.crawl, concurrency=1))
    stats: dict[str, Any] = {}

    async def look(crawl: Run, job: Job) -> None:
        while True:
            stats.update(crawl.stats())
            await asyncio.sleep(0.1)

    lab.run("http://a.test/start", during=look)
    excluded = [record for record in lab.records() if record["outcome"] == "excluded"]
    assert len(excluded) == (6 if most else 0), "two pages, the second beyond the number"
    assert len({record["url"] for record in lab.records()}) == len(lab.records())
    assert stats["links_of_copies"] == 12
    assert stats["urls_admitted"] == len(lab.records())
    assert [r["outcome"] for r in lab.records() if r["url"] == "http://a.test/w/three/"] == ["fetched"], "found later"
    lab.settings = replace(lab.settings, traps=replace(traps, duplicates="record"))
    lab.run("http://a.test/start")


def test_what_the_ledger_finds_to_be_new_is_asked_of_the_traps_too(tmp_path: Path) -> None:
    """A seen-set that is wrong more often than right, so that most of the calendar comes by the ledger."""
    days = [f"/calendar/{n}" for n in range(400)]
    lists = {f"http://a.test/list/{chr(97 + n)}": linked(days[20 * n : 20 * n + 20]) for n in range(20)}
    pages = {"http://a.test/": linked(list(lists)), **lists, **{f"http://a.test{day}": linked([]) for day in days}}
    lab = Laboratory(tmp_path / "job", pages)
    seen = SeenSettings(kind="bitmap", capacity=20, fpp=0.3, ledger=True)
    traps = TrapSettings(max_variants=10, max_records=1_000)
    lab.settings = replace(lab.settings, seen=seen, traps=traps)
    lab.run("http://a.test/", "http://a.test/calendar/7")
    outcomes = Counter(record["outcome"] for record in lab.records())
    assert outcomes == {"fetched": 1 + 1 + 20 + 10, "excluded": 400 - 1 - 10}
    late = [record for record in lab.records() if record["outcome"] == "excluded"]
    assert {record["error"] for record in late} == {"traps.max_variants: more than 10 URLs like /calendar/#"}
    counts = LedgerCounts.decode(lab.store.get(Family.META, LEDGER_COUNTS))
    assert counts.false_positives > 200
