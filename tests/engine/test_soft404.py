"""Sites that answer every path, in virtual time: the crawl ends with every real page, and honest sites lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import RobotsSettings, TrapSettings
from crawler.engine.lifecycle import Stop
from crawler.job.recovery import stored_counters
from tests.laboratory import Laboratory, links
from tests.simulated_web import page, redirect
from tests.traps import limit_traps

HOME = "http://a.test/"
LOST = "<h1>Not found</h1>" + links(["lost/", "gone/", "/p1"])
REAL = {HOME: links([*[f"/p{n}" for n in range(1, 11)], "/missing/"])} | {
    f"{HOME}p{n}": f"page {n}" + links([f"/p{n % 10 + 1}", "broken/"]) for n in range(1, 11)
}


class Answers(dict[str, Any]):
    """The pages of a web; ``other`` answers for the URLs that it does not have."""

    def __init__(self, pages: dict[str, Any], other: Callable[[str], Any]) -> None:
        super().__init__(pages)
        self.other = other

    def get(self, href: str, default: Any = None) -> Any:
        return self[href] if href in self else self.other(href)


def laboratory(directory: Path, pages: dict[str, Any], other: Callable[[str], Any], **traps: Any) -> Laboratory:
    lab = Laboratory(directory, Answers(pages, other)).with_politeness(delay=0.1)
    crawl = replace(lab.settings.crawl, max_pages=400)
    lab.settings = replace(lab.settings, traps=replace(TrapSettings(), **traps), crawl=crawl)
    return lab


def outcomes(lab: Laboratory) -> Counter[str]:
    return Counter(record["outcome"] for record in lab.records())


def by_path(lab: Laboratory) -> dict[str, dict[str, Any]]:
    return {record["url"].removeprefix(HOME.rstrip("/")): record for record in lab.records()}


@pytest.mark.parametrize("duplicates", ["record", "off"])
def test_a_site_without_a_404_ends(duplicates: str, tmp_path: Path) -> None:
    lab = laboratory(tmp_path / "job", REAL, lambda _: LOST, duplicates=duplicates)
    assert lab.run(HOME) is Stop.FINISHED
    rows = by_path(lab)
    assert {rows[href.removeprefix(HOME.rstrip("/"))]["outcome"] for href in REAL} == {"fetched"}
    (probe,) = (path for path, row in rows.items() if row.get("probe"))
    assert rows[probe]["outcome"] == "soft404"
    assert rows[probe]["via"] in {asked.href for asked in lab.asked}
    lost = [row for row in rows.values() if row["outcome"] == "soft404"]
    assert len(lab.asked) == len(rows) < 30
    assert not {row["via"] for row in rows.values()} & {row["url"] for row in lost}, "their links are left out"
    counted = stored_counters(lab.store)
    assert (counted.pages_soft404, counted.soft404_probes, counted.links_of_soft404) == (len(lost), 1, 3 * len(lost))
    assert counted.pending == 0


def test_the_job_remembers_what_it_learned(tmp_path: Path) -> None:
    lab = laboratory(tmp_path / "job", REAL, lambda _: LOST)
    lab.run(HOME)
    before = len(lab.records())
    lab.run(HOME, HOME + "given/")
    new = {record["url"]: record["outcome"] for record in lab.records()[before:]}
    assert new.pop(HOME + "given/") == "fetched", "never a seed"
    assert new == {HOME + "given/lost/": "soft404", HOME + "given/gone/": "soft404"}


def test_a_probe_obeys_robots_txt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_traps(monkeypatch, max_segments=5, max_repeats=10**6)
    lab = laboratory(tmp_path / "job", REAL, lambda _: LOST)
    lab.settings = replace(lab.settings, robots=RobotsSettings())
    robots = "User-agent: *\nDisallow: /*this-page-does-not-exist\n"
    lab.pages[HOME + "robots.txt"] = replace(page(robots), content_type="text/plain")
    lab.run(HOME)
    (probe,) = (row for row in lab.records() if row.get("probe"))
    assert (probe["outcome"], probe["status"]) == ("excluded", None)
    assert probe["url"] not in {asked.href for asked in lab.asked}
    assert "soft404" not in outcomes(lab)


EMPTY = "<p>Nothing here yet</p>" + links(["/", "new"])


@pytest.mark.parametrize("missing", [page("gone", status=404), redirect("/")], ids=["404", "home"])
def test_an_honest_site_with_many_equal_pages_loses_nothing(missing: Any, tmp_path: Path) -> None:
    """Empty lists in many places, ends of lists, aliases of pages, and links that a redirect leads home."""
    lists = {f"{HOME}{tag}/{n}/": EMPTY for tag in ("tag", "author", "year/2020") for n in range(6)}
    ends = {f"{HOME}list?page={n}": "the end" + links([f"/list?page={n - 1}"]) for n in range(1, 9)}
    aliases = {f"{HOME}{name}": links(["/tag/0/"]) for name in ("index.html", "home", "start/index.php")}
    fresh = {f"{href}new": f"a first entry {number}" for number, href in enumerate(lists)}
    pages = {HOME: links([*lists, *ends, *aliases, "/lost", "/gone"]), **lists, **ends, **aliases, **fresh}
    lab = laboratory(tmp_path / "job", pages, lambda _: missing)
    assert lab.run(HOME) is Stop.FINISHED
    found = {row["url"]: row for row in lab.records() if row["outcome"] == "fetched" and row["status"] == 200}
    assert set(pages) <= set(found)
    assert "soft404" not in outcomes(lab)
    probes = [row for row in lab.records() if row.get("probe")]
    assert len(probes) == 2, "one for the empty lists, one for the aliases"
    assert len(lab.asked) == len(lab.records()) == len(pages) + len(probes) + 2 + (HOME + "list?page=0" not in pages)
