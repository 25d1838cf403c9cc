"""``--on-page``: what is refused before anything is made, and whole crawls of the program, killed too."""

from __future__ import annotations

import json
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.cli import main
from tests.jobs import rows
from tests.program import crawler
from tests.site import Site, tree

PAGES = 40
MODULE = """
import os, signal, time, weakref

def size(page):
    with open("log", "a") as out:
        out.write(f"{page.id} {page.url}\\n")
    kills = int(os.environ.get("KILL_AT", "0"))
    if kills and sum(1 for _ in open("log")) >= kills:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.path.exists("broken") and page.url.endswith("/7"):
        raise LookupError("no size")
    return {"size": len(page.body)}

class Knot:
    pass

def litters(page):
    knot = Knot()
    knot.itself, known = knot, weakref.ref(knot)
    del knot
    held = [[] for _ in range(100_000)]
    return {"collected": known() is None}

def hangs(page):
    time.sleep(3600)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(tree(PAGES)) as served:
        yield served


@pytest.fixture
def here(tmp_path: Path, site: Site) -> Path:
    """A directory with a module and seeds."""
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "seeds").write_text(site.url("/"))
    (tmp_path / "crawl.toml").write_text('[hooks]\non_page = "shop:size"\non_error = "stop"\n')
    return tmp_path


def crawl(here: Path, *words: str, **environment: str) -> Any:
    flags = ("--allow-private", "--delay", "0", "--per-host", "4", "--capacity", "4096", "--job", "job")
    return crawler("crawl", "seeds", *flags, *words, directory=here, env=environment)


def test_killed_again_and_again_each_page_has_one_id_and_one_record(here: Path, site: Site) -> None:
    for kill_at in (3, 12, 27, 0):
        ran = crawl(here, "--on-page", "shop:size", KILL_AT=str(kill_at))
        assert ran.code == (-signal.SIGKILL if kill_at else 0), ran.err
    ids = defaultdict(set)
    for line in (here / "log").read_text().splitlines():
        name, url = line.split()
        ids[url].add(name)
    assert set(ids) == {site.url(path) for path in tree(PAGES)}
    assert all(len(names) == 1 for names in ids.values())
    written = rows(here / "job")
    assert Counter(row["id"] for row in written) == Counter(name for names in ids.values() for name in names)
    assert all(row["data"] == {"size": row["bytes"]} for row in written)


def test_garbage_is_collected_while_a_crawl_runs(here: Path) -> None:
    ran = crawl(here, "--on-page", "shop:litters")
    assert ran.code == 0, ran.err
    assert all(row["data"] == {"collected": True} for row in rows(here / "job"))


def test_a_failure_stops_the_crawl_if_it_is_to_and_the_next_run_goes_on(here: Path, site: Site) -> None:
    (here / "broken").touch()
    ran = crawl(here, "--config", "crawl.toml", "--quiet")
    assert ran.code == 1
    line = MODULE.splitlines().index('        raise LookupError("no size")') + 1
    failed, _stopped = ran.err.splitlines()
    assert failed == f"on_page failed on {site.url('/page/7')}: {here}/shop.py:{line}: LookupError: no size"
    assert site.url("/page/7") not in {row["url"] for row in rows(here / "job")}
    (here / "broken").unlink()
    ran = crawl(here, "--config", "crawl.toml")
    assert ran.code == 0, ran.err
    assert len(rows(here / "job")) == PAGES
    stats = json.loads(crawler("stats", here / "job", "--json").out)
    assert (stats["pages_code_failed"], stats["hooks"]) == (0, None)


def test_calls_that_do_not_return_keep_no_program_from_ending(here: Path, site: Site) -> None:
    (here / "crawl.toml").write_text("[hooks]\non_page_timeout = 0.05\n[crawl]\nmax_depth = 1\n")
    ran = crawl(here, "--on-page", "shop:hangs", "--config", "crawl.toml")
    assert ran.code == 0, ran.err
    assert len([row for row in rows(here / "job") if "data_error" in row]) == 8
    assert "your code failed on 8 pages" in ran.err


def test_what_cannot_be_used_is_refused_and_nothing_is_made(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    (here / "breaks.py").write_text("x = 1\nimport not_there_at_all\n")
    (here / "later.toml").write_text('[hooks]\n\non_page = "later:later"\non_page_in = "process"\n')
    (here / "later.py").write_text("async def later(page): ...\n")
    for words, told in [
        (["--on-page", "not_there_at_all:x"], "there is no module 'not_there_at_all'"),
        (["--on-page", "shop:prices"], "has no 'prices'"),
        (
            ["--on-page", "breaks:x"],
            f"command line, --on-page: on_page: breaks:x: {here}/breaks.py:2: ModuleNotFoundError",
        ),
        (["--on-page", "shop"], "no installed package"),
        (["--config", "later.toml"], "later.toml, line 4: on_page_in"),
    ]:
        assert main(["crawl", "seeds", "--job", "job", *words]) == 2
        err = capsys.readouterr().err
        assert told in err
        assert err.count("\n") == 1
    assert not (here / "job").exists()
