"""The real program killed at every named place and at many moments, restarted, and compared with a known site."""

from __future__ import annotations

import itertools
import json
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from crawler.base.disk import CRASH_AT
from tests.crash_points import CRAWL_POINTS
from tests.jobs import verify
from tests.outputs import bodies_of, edges_of, records
from tests.program import crawler
from tests.site import Site, tree

PAGES = 40
DELAY = 0.01
# Small slices are sealed often, short intervals bring many checkpoints; a tiny gap can be held to account. Every page
# must be found: a false positive would skip one, as it should.
CONFIG = f"""
[politeness]
delay = {DELAY}
[durability]
sync_interval = 0.02
checkpoint_interval = 0.06
[seen]
capacity = 8
fpp = 1e-9
[output]
keep = ["links", "bodies"]
file_size = 500
pages_size = 1500
"""
# Which pass of a place is the last one, where the first would be too early to hurt.
PASSES = {
    "step.marked": 17,
    "step.kept": 19,
    "step.recorded": 23,
    "output.begun": 2,
    "step.written": 31,
    "checkpoint.segment": 3,
    "sync.done": 3,
}
# What comes of a file that a generation of an earlier run covers: it is compressed first of all.
COMPRESSING = ("pages.compressed", "pages.renamed")
# Where the run before was killed.
FIRST = {"resume.postponed": "parsing:20"} | dict.fromkeys(COMPRESSING, "checkpoint.trimmed:2")
# A chain that is rebuilt as one slice before the first checkpoint has sealed none.
CHAIN = CONFIG.replace("[output]", "compact_slices = 0\n[output]")
# The chain is looked at each half second.
LONG = CONFIG.replace(f"delay = {DELAY}", "delay = 0.06")
CONFIGS = {"checkpoint.sealed": CHAIN, "compaction.done": LONG}

# Five and a half megabytes, stored anew once and at the end: generations between name the first one's.
LARGE = CONFIG.replace("capacity = 8\n", 'kind = "bloom"\ncapacity = 1_000_000\n')


def crawl(directory: Path, site: Site, at: str = "", config: str = CONFIG) -> int:
    (directory / "seeds.txt").write_text(site.url("/") + "\n")
    (directory / "crash.toml").write_text(config)
    words = (directory / "seeds.txt", "--job", directory / "job", "--config", directory / "crash.toml")
    ran = crawler(*words, "--allow-private", "--quiet", env={CRASH_AT: at})
    assert "Traceback" not in ran.err
    return ran.code


def targets(site: Site, html: str) -> list[str]:
    return [site.url(part.split('"')[0]) for part in html.split('href="')[1:]]


def hold_to_account(directory: Path, site: Site, kills: int) -> None:
    """Everything is there once, nobody was hurt, and only what was in flight was asked for again."""
    rows = [record["url"] for record in records(directory / "job")]
    assert Counter(rows) == Counter(site.url(path) for path in tree(PAGES))
    assert len(site.pages_asked()) - PAGES <= kills, "with one lease slot one URL is in flight at most"
    htmls = {site.url(path): html for path, html in tree(PAGES).items()}
    wanted = {url: set(targets(site, html)) for url, html in htmls.items()}
    found = {url: {row["to"] for row in rows} for url, rows in edges_of(directory / "job").items()}
    assert found == {url: links for url, links in wanted.items() if links}
    assert bodies_of(directory / "job") == {url: html.encode() for url, html in htmls.items()}
    asked = sorted(site.asked, key=lambda one: one.start)
    gaps = [later.start - earlier.end for earlier, later in itertools.pairwise(asked)]
    assert min(gaps) >= DELAY * 0.9, "the gap holds across a kill"
    checked = verify(directory / "job")
    assert checked.code == 0, checked


@pytest.mark.parametrize("point", CRAWL_POINTS)
def test_a_kill_at_every_named_place(tmp_path: Path, point: str) -> None:
    with Site(tree(PAGES)) as site:
        kills = 1
        if point.startswith("resume.") or point in COMPRESSING:
            first = FIRST.get(point, "step.written:20")
            assert crawl(tmp_path, site, first) == -signal.SIGKILL
            kills += 1
        config = CONFIGS.get(point, CONFIG)
        killed = crawl(tmp_path, site, f"{point}:{PASSES.get(point, 1)}", config)
        assert killed == -signal.SIGKILL, f"{point} was not reached"
        assert crawl(tmp_path, site, config=config) == 0
        hold_to_account(tmp_path, site, kills)


@pytest.mark.parametrize("point", ["begin.identity", "store.begun", "store.made", "store.placed"])
def test_a_job_whose_store_is_not_made_yet_is_whole(tmp_path: Path, point: str) -> None:
    with Site(tree(PAGES)) as site:
        assert crawl(tmp_path, site, point) == -signal.SIGKILL, f"{point} was not reached"
        if point != "begin.identity":  # there is no job yet
            checked = verify(tmp_path / "job")
            assert checked.code == 0, checked
            figures = crawler("stats", tmp_path / "job", "--json")
            assert figures.code == 0, figures.err
            assert json.loads(figures.out)["pages_fetched"] == 0
        assert crawl(tmp_path, site) == 0
        assert not [path for path in (tmp_path / "job").iterdir() if path.name.startswith("store.")]
        hold_to_account(tmp_path, site, 1)


@pytest.mark.parametrize(
    "point", [point for point in CRAWL_POINTS if point.startswith("checkpoint.") and point != "checkpoint.sealed"]
)
def test_a_kill_in_a_generation_that_names_what_an_earlier_one_stored(tmp_path: Path, point: str) -> None:
    with Site(tree(PAGES)) as site:
        assert crawl(tmp_path, site, "checkpoint.trimmed", LARGE) == -signal.SIGKILL, "the first generation stores it"
        assert crawl(tmp_path, site, point, LARGE) == -signal.SIGKILL, f"{point} was not reached"
        assert crawl(tmp_path, site, config=LARGE) == 0
        hold_to_account(tmp_path, site, 2)


@pytest.mark.parametrize("seed", range(1, 5))
def test_kills_at_random_places_one_after_the_other(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Site(tree(PAGES)) as site:
        kills = 0
        for _ in range(5):
            point = chance.choice(CRAWL_POINTS)
            kills += crawl(tmp_path, site, f"{point}:{chance.randint(1, 4)}") == -signal.SIGKILL
        assert crawl(tmp_path, site) == 0
        hold_to_account(tmp_path, site, kills)
        assert kills
