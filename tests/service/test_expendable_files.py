"""Files that nothing rests on never end a crawl: whatever is in their place, or gone."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.base.say import say
from crawler.job.inbox import Inbox
from tests.jobs import rows, verify
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

PAGES = 60
OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "4", "--dashboard", "0")
FILES = ("live.json", "live.json.part", "history.json", "history.json.part", "run.json", "dashboard-token")


def begin(site: Site, seeds: Path, job: Path) -> None:
    """Make a job with a page."""
    seeds.write_text(site.url("/") + "\n")
    ran = crawler(seeds, "--job", job, *OPTIONS, "--max-pages", "1")
    assert ran.code == 0, ran.err


def is_whole(site: Site, job: Path, *more: str) -> None:
    wanted = Counter(site.url(path) for path in (*tree(PAGES), *more))
    assert Counter(row["url"] for row in rows(job)) == wanted
    assert Counter(site.pages_asked()) == wanted


def test_files_that_vanish(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(PAGES), latency=0.3) as site:
        seeds.write_text(site.url("/") + "\n")
        with running(seeds, "--job", job, *OPTIONS) as process:
            wait_until((job / "live.json").exists, "a status")
            assert crawler("add", job, site.url("/?added")).code == 0
            for name in FILES:
                (job / name).unlink(missing_ok=True)
            shutil.rmtree(job / "inbox")
            wait_until((job / "live.json").exists, "another status")
            site.latency = 0.0
            _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        is_whole(site, job, "/?added")
    assert "continues without" not in err.decode()
    assert verify(job).code == 0


def test_an_inbox_file_that_cannot_be_read_keeps_no_crawl_from_its_end(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(PAGES)) as site:
        begin(site, seeds, job)
        inbox = Inbox(job, RealDisk())
        left = inbox.deposit([site.url("/?left")], seed=False, answer=False)
        path = inbox.path / f"{left}.urls"
        path.unlink()
        path.symlink_to(path.name)  # ELOOP, also for root
        (inbox.path / "aside").touch()  # and it cannot be moved away
        (inbox.path / "of somebody else").touch()
        inbox.deposit([site.url("/?added")], seed=False, answer=False)
        ran = crawler(seeds, "--job", job, *OPTIONS)
        assert ran.code == 0, ran.err
        is_whole(site, job, "/?added")
    assert f"{left}.urls: Too many levels of symbolic links: left for the next run" in ran.err


def test_urls_whose_answer_cannot_be_written_are_admitted_once(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(PAGES)) as site:
        begin(site, seeds, job)
        inbox = Inbox(job, RealDisk())
        name = inbox.deposit([site.url("/?added")], seed=False, answer=True)
        (inbox.path / f"{name}.answer").mkdir()
        ran = crawler(seeds, "--job", job, *OPTIONS)
        assert ran.code == 0, ran.err
        is_whole(site, job, "/?added")
    assert not list(inbox.path.glob("*.urls"))


def test_a_full_disk_takes_lines_and_not_the_crawl() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        stream = io.TextIOWrapper(full, "utf-8", write_through=True)  # type: ignore[arg-type]  # as standard error is
        for _ in range(3):
            say(stream, "a line")
        with pytest.raises(OSError, match="No space left"):
            stream.write("the disk is full")
        stream.detach()
