"""What a run says when it resumes a job, and the directories in which it begins none."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.jobs import rows
from tests.program import Ran, crawler
from tests.site import Site, tree

LOUD = ("--allow-private", "--delay", "0", "--capacity", "1024")


@dataclass
class Home:
    """A directory to run in, and a site of 12 pages on two hosts."""

    site: Site
    path: Path

    def run(self, *options: str, seeds: str = "seeds.txt", stdin: str = "") -> Ran:
        return crawler(seeds, *LOUD, *options, directory=self.path, stdin=stdin)

    def seeds(self, *urls: str, name: str = "seeds.txt") -> None:
        (self.path / name).write_text("".join(f"{url}\n" for url in urls))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Site(tree(12), ports=2) as site:
        made = Home(site, tmp_path)
        made.seeds(site.url("/"))
        yield made


def figures(ran: Ran) -> list[int]:
    """How many pages the last lines say were fetched: by this run, unless it was the first one, and in all."""
    said = r"^(?:this run|URLs) .* (\d+) (?:fetched|pages?\b)"
    return [int(number) for number in re.findall(said, ran.err, re.MULTILINE)]


def test_a_run_says_what_it_resumes_and_what_it_did_itself(home: Home) -> None:
    ran = home.run("--max-pages", "5")
    assert ran.code == 0, ran.err
    assert figures(ran) == [5]

    home.seeds(home.site.url("/"), home.site.url("/page/3"), home.site.url("/", 1))
    ran = home.run("--max-pages", "12")
    assert ran.code == 0, ran.err
    assert re.search(r"^resuming crawl-job: started \d\d:\d\d, 5 pages done; seeds: 1 new$", ran.err, re.MULTILINE)
    assert figures(ran) == [7, 12]

    ran = home.run("--max-pages", "12", "--output", "links")
    assert ran.code == 0
    assert "12 pages done; seeds: 0 new\n" in ran.err
    assert figures(ran) == [0, 12]

    ran = home.run(seeds="-")
    assert ran.code == 0, ran.err

    before = time.time() - 3 * 86_400
    os.utime(home.path / "crawl-job" / "job.json", (before, before))
    ran = home.run()
    assert ran.code == 0
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(before))
    assert f"resuming crawl-job: started {day}, 24 pages done; seeds: 0 new\n" in ran.err


def test_a_run_that_a_limit_stopped_names_it_and_what_to_raise_wherever_the_job_is_shown(home: Home) -> None:
    said = "the limit of 5 pages was reached; raise --max-pages to continue"
    ran = home.run("--max-pages", "5", "--output", "markdown")
    assert re.search(rf"^stopped after [0-9.]+ s: {said}$", ran.err, re.MULTILINE), ran.err
    job = home.path / "crawl-job"
    assert crawler("stats", job).out.splitlines()[0] == f"stopped: {said}"
    stats = json.loads(crawler("stats", job, "--json").out)
    assert (stats["stopped_by"], stats["stopped"]) == ("max-pages", said)

    shutil.rmtree(job / "markdown")  # as after a kill: its files are made when a run ends
    ran = home.run("--max-pages", "500", "--output", "markdown")
    assert ran.code == 0, ran.err
    assert "--output" not in ran.err, "pages of the first run are in that output too"
    stats = json.loads(crawler("stats", job, "--json").out)
    assert (stats["state"], stats["stopped_by"], stats["stopped"]) == ("ended", None, None)


def test_the_default_directory_with_the_crawl_of_other_seeds(home: Home) -> None:
    assert home.run("--max-pages", "2", "--quiet").code == 0
    home.seeds(home.site.url("/", 1), home.site.url("/page/1", 1), name="other.txt")
    before = rows(home.path / "crawl-job")
    ran = home.run(seeds="other.txt")
    assert ran.code == 2
    assert rows(home.path / "crawl-job") == before
    assert home.run("--job", "other-job", seeds="other.txt").code == 0
    assert len(rows(home.path / "other-job")) == 12
    ran = home.run("--job", "crawl-job", seeds="other.txt")
    assert ran.code == 0, "a directory that was named is meant"
    assert len(rows(home.path / "crawl-job")) == 24
    assert "seeds: 2 new" in ran.err


def test_a_directory_with_files_of_somebody_else_is_left_alone(home: Home) -> None:
    photographs = home.path / "photographs"
    photographs.mkdir()
    (photographs / "sea.jpg").touch()
    (photographs / ".hidden").touch()
    for seeds, stdin in (("seeds.txt", ""), ("-", home.site.url("/"))):
        ran = home.run("--job", "photographs", seeds=seeds, stdin=stdin)
        assert ran.code == 2
    assert crawler("demo", "--job", "photographs", directory=home.path).code == 2
    assert sorted(path.name for path in photographs.iterdir()) == [".hidden", "sea.jpg"]


def test_a_file_system_of_its_own_is_empty_enough(home: Home) -> None:
    mount = home.path / "mount"
    mount.mkdir()
    (mount / "lost+found").mkdir()
    (mount / ".Trash-0").mkdir()
    assert home.run("--job", "mount", "--max-pages", "2", "--quiet").code == 0


def test_what_a_crawl_left_that_was_killed_before_it_began_is_no_obstacle(home: Home) -> None:
    env = {"CRAWLER_CRASH_AT": "begin.identity"}
    assert crawler("seeds.txt", *LOUD, directory=home.path, env=env).code == -9
    assert (home.path / "crawl-job" / "lock").exists()
    assert home.run("--max-pages", "2", "--quiet").code == 0
