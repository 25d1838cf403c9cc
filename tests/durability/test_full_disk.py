"""The real program on a file system that is really full: it waits, is looked at meanwhile, and carries on."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.asked import free_port, knows, opened
from tests.jobs import rows, verify
from tests.program import crawler, running, wait_until
from tests.site import Site, tree
from tests.small_disk import SmallDisk, small_disk

PAGES = 200
MEGABYTES = 16
OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "4")
FULL = "No space left on device"
PAUSED = f"paused, nothing is lost: {FULL}; waiting for space\n"
WAITS = f"the crawl has not started, nothing is lost: {FULL}; waiting for space\n"
AGAIN = "disk space is available again: the crawl "


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", MEGABYTES, 400) as mounted:
        yield mounted


class Crawl:
    """A crawl of a site on a small disk, with a dashboard."""

    def __init__(self, site: Site, directory: Path, job: Path) -> None:
        self.site = site
        self.job = job
        self.seeds = directory / "seeds.txt"
        self.seeds.write_text(site.url("/") + "\n")
        self.config = directory / "often.toml"  # each of these looks finds the disk full or not
        self.config.write_text("[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.2\n")

    @contextmanager
    def running(self) -> Iterator[Any]:
        address = f"127.0.0.1:{free_port()}"
        self.address = f"http://{address}"
        token = self.seeds.with_name("token")  # the job keeps none while its disk is full
        token.write_text("a-token-for-these-tests")
        words = (*OPTIONS, "--dashboard", address, "--dashboard-token-file", token)
        with running(self.seeds, "--job", self.job, "--config", self.config, *words) as made:
            knows(self.address, token.read_text())
            self.process = made
            yield made

    def get(self, path: str) -> Any:
        try:
            with opened(self.address + path) as answer:
                return json.load(answer)
        except OSError as error:
            if self.process.poll() is not None:
                raise AssertionError(f"the crawl has ended: {self.process.stderr.read().decode()}") from error
            raise

    def stats(self) -> Any:
        """What the command prints, run beside the crawl."""
        ran = crawler("stats", self.job, "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    def asked(self, number: int) -> None:
        wait_until(lambda: len(self.site.asked) >= number, f"{number} requests")

    def paused(self, disk: SmallDisk) -> bool:
        """Whether it has found the disk full, which is kept full: a checkpoint that fails gives its room back."""
        disk.fill()
        return bool(self.get("/api/stats")["state"] == "paused")

    def add(self, path: str) -> Any:
        return crawler("add", self.job, self.site.url(path))

    def is_whole(self, *more: str) -> None:
        """Every page was asked for once, stands in the output once, and the job is whole."""
        wanted = Counter(self.site.url(path) for path in (*tree(PAGES), *more))
        assert Counter(self.site.pages_asked()) == wanted
        assert Counter(row["url"] for row in rows(self.job)) == wanted
        checked = verify(self.job)
        assert checked.code == 0, checked


def test_a_crawl_waits_while_the_disk_is_full_and_is_looked_at_meanwhile(tmp_path: Path, disk: SmallDisk) -> None:
    with Site(tree(PAGES), latency=0.1) as site:
        crawl = Crawl(site, tmp_path, disk.path / "job")
        with crawl.running() as process:
            crawl.asked(20)
            added = crawl.add("/?before")
            assert (added.code, added.out) == (0, "1 admitted, 0 known, 0 out of scope, 0 invalid\n"), added.err
            wait_until(lambda: crawl.paused(disk), "the crawl finds the disk full")
            for number in range(1, 20):  # the store is read, while it is tried again and again whether there is room
                assert crawl.get(f"/api/hosts?limit={number}")["hosts"]
            wait_until(lambda: crawl.stats()["paused"] == f"disk full: {FULL}", "stats says so, too")
            refused = crawl.add("/?full")
            assert refused.code == 1
            assert f"cannot be stored in {crawl.job / 'inbox'}: {FULL}: they were not added" in refused.err
            assert verify(crawl.job).code == 0
            asked = len(site.asked)
            assert crawl.get("/api/stats")["state"] == "paused"
            assert len(site.asked) == asked, "no request is sent that could not be written down"
            disk.free()
            site.latency = 0.0
            wait_until(lambda: len(site.asked) > asked, "the crawl resumes by itself")
            assert crawl.add("/?full").code == 0
            _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        text = err.decode()
        assert (text.count(PAUSED), text.count(AGAIN)) == (1, 1), text
        crawl.is_whole("/?before", "/?full")


@pytest.mark.parametrize("begun", [True, False])
def test_a_start_on_a_full_disk_waits_as_a_run_does(tmp_path: Path, disk: SmallDisk, begun: bool) -> None:
    with Site(tree(PAGES), latency=0.1) as site:
        crawl = Crawl(site, tmp_path, disk.path / "job")
        if begun:
            with crawl.running() as process:
                crawl.asked(20)
                wait_until(lambda: crawl.paused(disk), "the crawl finds the disk full")
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=100)
            assert process.returncode == 130, err
            site.asked.clear()
            done = {row["url"] for row in rows(crawl.job)}
        disk.fill()
        with crawl.running() as process:
            said = process.stderr.readline()
            assert said.decode() == WAITS
            if begun:
                assert crawler("stats", crawl.job).code == 0
                added = crawl.add("/?full")
                assert FULL in added.err
                stored = ["/?full"] if added.code == 0 else []
            assert crawl.get("/api/stats") == {}, "the page is there, and says nothing of a crawl that has not begun"
            assert not site.asked
            disk.free()
            site.latency = 0.0
            _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        err.decode()
        if not begun:
            crawl.is_whole()
            return
        wanted = Counter(site.url(path) for path in (*tree(PAGES), *stored))
        assert Counter(row["url"] for row in rows(crawl.job)) == wanted
        assert len(done & set(site.pages_asked())) <= 1, "the page whose end found the disk full"
        assert verify(crawl.job).code == 0


def test_add_where_no_crawl_runs_leaves_the_urls_in_the_inbox_until_there_is_room(
    tmp_path: Path, disk: SmallDisk
) -> None:
    with Site(tree(PAGES)) as site:
        crawl = Crawl(site, tmp_path, disk.path / "job")
        ran = crawler(crawl.seeds, "--job", crawl.job, *OPTIONS, "--max-pages", "20", "--quiet")
        assert ran.code == 0, ran.err
        disk.fill()
        disk.leave(16_384)  # for the file in the inbox, and not for what a run makes
        added = crawl.add("/?full")
        assert (added.code, added.out) == (0, "0 admitted, 0 known, 0 out of scope, 0 invalid\n"), added.err
        assert f"cannot be admitted now: {FULL}: 1 URL left in {crawl.job / 'inbox'}" in added.err
        disk.free()
        ran = crawler(crawl.seeds, "--job", crawl.job, *OPTIONS, "--quiet")
        assert ran.code == 0, ran.err
        crawl.is_whole("/?full")
