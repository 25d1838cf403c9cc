"""Crawls of a site that makes up URLs without end: they end, with every real page, and the records name the rules."""

from __future__ import annotations

import json
import random
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crawler.base.disk import CRASH_AT
from crawler.base.kv import Family
from crawler.job.store.rocks import RocksStore
from tests.jobs import repair, verify
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
    limits = TRAPS.replace("max_variants = 25", "") if isinstance(site.pages, Sessions) else TRAPS
    (tmp_path / "crawl.toml").write_text(limits)
    (tmp_path / "seeds").write_text(site.url("/") + "\n")
    common = ("--job", tmp_path / "job", "--allow-private", "--ignore-robots", "--delay", "0", "--per-host", "4")
    line = ("crawl", tmp_path / "seeds", "--config", tmp_path / "crawl.toml", *common, *words)
    return crawler(*line, env={CRASH_AT: at}).code


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
    assert repeats >= 1
    assert repeats + segments + 6 + 2 <= len(excluded) <= 320, "a trap writes a bounded number of records"
    assert sum(path.startswith("/calendar/") for path in fetched) == 25
    assert not any(path_of(row) in fetched for row in excluded)

    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert stats["urls_excluded"] == len(excluded)
    assert stats["urls_pending"] == 0
    assert crawler("verify", tmp_path / "job").code == 0


class Sessions(dict[str, str]):
    """Pages a to e, which the last word of a path names, with new ids in their links."""

    def get(self, path: str, default: Any = None) -> Any:
        name = (["", *re.findall(r"\b[a-e]\b", path)])[-1]
        grown = path if path.startswith("/g") else "/g"
        new = f"{random.getrandbits(96):024x}"
        forms = (
            f"/?zenid={new}&p=%s",
            f"/s;jsessionid={new}/%s",
            f"/(S({new}))/%s",
            f"/id/s-{new}-x/%s",
            f"{grown}/%s",
        )
        return f"<p>{name}" + linked([form % to for form in forms for to in "abcde"])


def test_ids_in_links_end_however_often_the_crawl_is_killed(tmp_path: Path) -> None:
    with Site(Sessions()) as site:
        for kill in ("step.recorded:30", "step.marked:25", "step.written:20", ""):
            code = crawl(tmp_path, site, *((), ("--max-pages", "2000"))[not kill], at=kill)
            assert code == (-signal.SIGKILL if kill else 0)
    done = rows(tmp_path / "job")
    assert sum(row["outcome"] == "fetched" for row in done) < 1_000
    assert len({row["error"] for row in done if "max_id_copies" in str(row["error"])}) >= 4
    assert len(done) == len({row["url"] for row in done})
    assert crawler("verify", tmp_path / "job").code == 0


def test_damaged_counts_are_named_and_repaired(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with Site(Endless(REAL)) as site:
        assert crawl(tmp_path, site, "--max-pages", "40") == 0
        store = RocksStore(job / "store")
        batch = store.batch()
        (key, value), (other, _), *_ = store.scan(Family.TRAPS, b"n", b"o")
        batch.put(Family.TRAPS, key, value + b"?")
        batch.delete(Family.TRAPS, other)
        batch.put(Family.CONTENT, b"no mark", b"http://h.test/")
        store.write(batch)
        store.close()
        assert verify(job).kinds >= {"row-damaged", "count-differs"}
        repaired = repair(job)
        assert repaired.code == 0, repaired
        assert repaired.find("rows-removed", family="traps", count=1)
        assert repaired.find("rows-removed", family="content", count=1)
        assert crawler("verify", job).code == 0
        assert crawl(tmp_path, site) == 0
    assert set(REAL) <= {path_of(row) for row in rows(job) if row["outcome"] == "fetched"}
