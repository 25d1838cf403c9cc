"""Older seen-sets that a crawl asks too: files and jobs of every kind, and what a crawl leaves out by them."""

from __future__ import annotations

import asyncio
import io
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import CrawlSettings, PolitenessSettings, RobotsSettings, SeenSettings, Settings
from crawler.inspect.explanation import explain_url
from crawler.inspect.known_urls import open_known
from crawler.job.directory import JobError
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.seen.filters import KINDS
from crawler.seen.filters import make_seen as make_filter
from crawler.tools.dedup.key_spec import KeySpec
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from tests.driving import Driven
from tests.durability.power import Inline
from tests.engine.test_recrawl import START, crawl, seeds
from tests.engine.test_recrawl import settings as revisiting
from tests.jobs import OPTIONS, rows
from tests.memory_store import MemoryStore
from tests.program import crawler
from tests.simulated_web import Answers, SimulatedWeb, redirect
from tests.site import Site, linked, tree
from tests.virtual import run_virtually

KNOWN = [f"http://h.test/{number}" for number in range(20)]
OTHERS = [f"http://h.test/new/{number}" for number in range(20)]


def urls(hrefs: list[str]) -> list[Canonical]:
    found = [Canonicaliser().canonicalise(href) for href in hrefs]
    return [url for url in found if isinstance(url, Canonical)]


def written(path: Path, keys: list[str], kind: str = "exact", spec: KeySpec | None = None) -> Path:
    seen = make_filter(
        SeenSettings(kind="scalable" if kind == "exact" else kind, capacity=64, fpp=1e-4 if kind == "bitmap" else 1e-6)
    )
    seen.add_many(keys)
    out = io.BytesIO()
    seen.write_to(out, {} if spec is None else {"keys": spec.as_json()})
    path.write_bytes(out.getvalue())
    return path


def asked(path: Path, hrefs: list[str], own: Path) -> list[bool]:
    with open_known([str(path)], own) as known:
        assert known is not None
        return known.contains(urls(hrefs))


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"exact"}))
def test_a_file_of_every_kind_is_asked_with_its_own_secret(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path / "old", KNOWN, kind)
    before = path.read_bytes()
    found = asked(path, [*KNOWN, *OTHERS], tmp_path / "job")
    assert all(found[:20])
    assert sum(found[20:]) <= 3, "it errs as often as it says, which is hardly ever"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "seen",
    [SeenSettings(capacity=64), SeenSettings(kind="exact", capacity=64), SeenSettings(capacity=64, ledger=True)],
    ids=["scalable", "exact", "ledger"],
)
def test_a_job_is_asked_and_not_changed(tmp_path: Path, seen: SeenSettings) -> None:
    pages: dict[str, Answers] = {"http://h.test/": linked(list(KNOWN))}
    how = replace(revisiting(5.0), seen=seen)
    run_virtually(crawl(tmp_path / "old", pages, [(START, "")], how))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "old").rglob("*")}
    assert asked(tmp_path / "old", [*KNOWN, *OTHERS], tmp_path / "job") == [True] * 20 + [False] * 20
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "old").rglob("*")} == before
    with pytest.raises(JobError, match="is the job itself"):
        asked(tmp_path / "old", KNOWN, tmp_path / "old")


def test_each_set_is_asked_by_its_own_rules_and_one_of_several_is_enough(tmp_path: Path) -> None:
    spec = KeySpec(rules=("sort-query",))
    sorted_ones = written(tmp_path / "sorted", ["http://h.test/?a=1&b=2"], spec=spec)
    plain = written(tmp_path / "plain", ["http://h.test/plain"])
    with open_known([str(sorted_ones), str(plain)], tmp_path / "job") as known:
        assert known is not None
        asked = urls(["http://h.test/?b=2&a=1", "http://h.test/plain", "http://h.test/neither"])
        found, names = known.contains(asked), [known.that_know(url) for url in asked]
    assert found == [True, True, False]
    assert names == [[str(sorted_ones)], [str(plain)], []]
    with open_known([], tmp_path / "job") as known:
        assert known is None


def test_what_is_no_set_of_urls_is_refused_in_one_line(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", KNOWN).read_bytes()
    version = bytearray(whole)
    version[4:8] = (99).to_bytes(4, "little")
    wrong: dict[str, bytes] = {
        "version": bytes(version),
        "cut": whole[:-5],
        "longer": whole + b"x",
        "text": b"http://h.test/\n",
        "empty": b"",
    }
    for name, data in wrong.items():
        (tmp_path / name).write_bytes(data)
    written(tmp_path / "raw", KNOWN, spec=KeySpec(raw=True))
    (tmp_path / "directory").mkdir()
    for name in (*wrong, "raw", "directory", "missing"):
        with pytest.raises(JobError) as refused:
            asked(tmp_path / name, KNOWN, tmp_path / "job")
        assert str(tmp_path / name) in str(refused.value), name
        assert "\n" not in str(refused.value)


class Knows:
    """An older seen-set."""

    def __init__(self, *hrefs: str) -> None:
        self._hrefs = hrefs

    def contains(self, asked: Any) -> list[bool]:
        return [url.href in self._hrefs for url in asked]

    def that_know(self, url: Canonical) -> list[str]:
        return ["old"] if url.href in self._hrefs else []


def test_links_to_known_urls_are_left_out_and_what_is_asked_for_is_not(tmp_path: Path) -> None:
    pages: dict[str, Answers] = {
        "http://h.test/": linked(["/old", "/new", "/from", "/old"]),
        "http://h.test/new": linked(["/old", "/newer", "/"]),
        "http://h.test/from": redirect("/old"),
        "http://h.test/seed": redirect("/old/target"),
    }
    how = Settings(crawl=CrawlSettings(), politeness=PolitenessSettings(delay=0.0), robots=RobotsSettings(ignore=True))

    async def crawled() -> tuple[set[str], int]:
        def clock() -> float:
            return START + asyncio.get_running_loop().time()

        job = Job(tmp_path / "job", how, clock(), Platform(open_store=lambda _: MemoryStore(), executor=Inline))
        with closing(job):
            job.leave_out(Knows("http://h.test/", "http://h.test/old", "http://h.test/old/target"))
            begin = seeds("http://h.test/", "http://h.test/seed")
            await Driven(job, SimulatedWeb(pages), how, clock, begin).to_the_end()
            return {row["url"] for row in rows(tmp_path / "job")}, job.counters.urls_known

    found, known = run_virtually(crawled())
    assert found == {f"http://h.test/{name}" for name in ("", "new", "newer", "from", "seed", "old/target")}
    assert known == 4, "on the first page, on the second one, which links to the first too, and a redirect"


def test_a_crawl_is_told_which_urls_are_known(tmp_path: Path) -> None:
    with Site(tree(20)) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        old = written(tmp_path / "old", [site.url(f"/page/{number}") for number in (0, 2, 3)])
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS)
        refused = crawler(*words, "--known", tmp_path / "none")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert not (tmp_path / "job").exists()
        ran = crawler(*words, "--known", old)
        assert ran.code == 0, ran.err
        found = {row["url"] for row in rows(tmp_path / "job")}
        below = {number for number in range(20) if number not in (2, 3) and (number - 1) // 7 not in (2, 3)}
        assert found == {site.url("/" if number == 0 else f"/page/{number}") for number in below}
        asked = {number: explain_url(tmp_path / "job", site.url(f"/page/{number}")) for number in (1, 2)}
        assert [found.older_sets for found in asked.values()] == [[], [str(old)]]
        assert [found.record is None for found in asked.values()] == [False, True]
        old.unlink()
        without = explain_url(tmp_path / "job", site.url("/page/1"))
        assert str(old) in (without.older_sets_fault or "")
        assert without.record == asked[1].record
