"""Pending URLs get another class by pattern: through the inbox of a running crawl, in pieces, over crashes."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawler.base.disk import RealDisk
from crawler.base.kv import Family
from crawler.cli import main
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.inbox import Answer, Inbox, UrlBatch
from crawler.job.job import Job
from crawler.job.recovery import stored_counters
from crawler.url.scope.patterns import PatternError
from tests.jobs import findings
from tests.laboratory import Laboratory, links

HOME = "http://a.test/"
PAGES = {HOME: links([f"{HOME}news/{n}" for n in range(9)] + [f"{HOME}old/{n}" for n in range(9)])} | {
    f"{HOME}{part}/{n}": f"<p>{part} {n}" for part in ("news", "old") for n in range(9)
}


def paths(lab: Laboratory) -> list[str]:
    return [asked.href.removeprefix(HOME).rstrip("0123456789") for asked in lab.asked]


def states(lab: Laboratory) -> list[bytes]:
    """The batches of which the store knows how far they have come."""
    return [key for key, _ in lab.store.rows(Family.META, b"class/", b"class0")]


async def until(holds: Callable[[], bool]) -> None:
    """Virtual time passes until something holds."""
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.5)
    raise AssertionError("it never did")


def test_a_pattern_moves_what_is_pending_of_a_running_crawl(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, dict(PAGES)).with_politeness(delay=1.0)
    inbox, names = Inbox(tmp_path, RealDisk()), list[str]()

    async def during(run: Any, job: Job) -> None:
        await until(lambda: len(lab.asked) >= 4)
        names.append(inbox.change_class("/old/*", 0, answer=True))

    lab.run(HOME, during=during)
    assert inbox.answer(names[0]) == Answer(9)
    asked_paths = [path for path in paths(lab) if path in ("news/", "old/")]
    before = asked_paths.index("old/")
    assert before < 9, "what was moved went first"
    assert asked_paths == ["news/"] * before + ["old/"] * 9 + ["news/"] * (9 - before)
    assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []
    assert states(lab) == []


@pytest.mark.parametrize("fails", [False, True])
def test_the_crawl_does_not_end_between_the_end_of_a_batch_and_the_removal_of_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """All pages are fetched while the file of a batch is removed, in a thread that takes its time. A file that stays
    is taken up by the next run, which counts nothing again."""
    lab = Laboratory(tmp_path, dict(PAGES)).with_politeness(delay=1.0)
    inbox, names, close = Inbox(tmp_path, RealDisk()), list[str](), Inbox.close_batch
    removed, all_fetched = threading.Event(), threading.Event()

    def slowly(box: Inbox, url_batch: UrlBatch, answer: Answer) -> None:
        if fails:
            raise OSError(errno.EACCES, "Permission denied")
        close(box, url_batch, answer)
        removed.set()
        assert all_fetched.wait(60)

    async def during(run: Any, job: Job) -> None:
        await until(lambda: len(lab.asked) >= 4)
        names.append(inbox.change_class("/old/*", 0, answer=True))
        try:
            await until(lambda: len(lab.asked) == len(PAGES))
            assert fails or removed.wait(60)
            await asyncio.sleep(60)  # nothing is left to be fetched
        finally:
            all_fetched.set()

    monkeypatch.setattr(Inbox, "close_batch", slowly)
    lab.run(HOME, during=during)
    assert bool(inbox.waiting()) == fails
    if fails:
        assert len(states(lab)) == 1, "it was done already"
        monkeypatch.setattr(Inbox, "close_batch", close)
        lab.run(HOME)
    assert inbox.answer(names[0]) == Answer(9)
    assert states(lab) == []
    assert inbox.waiting() == []


def test_a_batch_that_asks_for_no_class_or_no_pattern_is_set_aside(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {HOME: "<p>home"})
    lab.run(HOME)
    inbox = Inbox(tmp_path, RealDisk())
    inbox.change_class("no pattern", 0, answer=False)
    inbox.change_class("/*", 9, answer=False)
    lab.run(HOME)
    assert inbox.waiting() == []
    assert len(list((inbox.path / "aside").iterdir())) == 2


def test_in_the_library_and_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with DurableFrontier(tmp_path, delay=0.0) as frontier:
        frontier.add([f"http://h.test/{part}/{n}" for n in range(3) for part in ("a", "b", "c")])
        assert frontier.set_priority("/b/*", 5) == 3
        assert frontier.set_priority("http://h.test/b/2", 4) == 1
        assert frontier.set_priority("/b/2", 4) == 0
        with pytest.raises(ValueError, match="0 to 7"):
            frontier.set_priority("/b/*", 8)
        with pytest.raises(PatternError):
            frontier.set_priority("b", 1)
    assert main(["priority", str(tmp_path), "/a/*", "7"]) == 0
    assert capsys.readouterr().out == "3 URLs moved to class 7\n"
    assert main(["priority", str(tmp_path), "a", "7"]) == 2
    with DurableFrontier(tmp_path, delay=0.0) as frontier:
        taken = []
        while (lease := frontier.take()) is not None:
            frontier.finish(lease)
            taken.append(lease.url.removeprefix("http://h.test/"))
        assert taken == ["c/0", "c/1", "c/2", "b/2", "b/0", "b/1", "a/0", "a/1", "a/2"]
        frontier.add("http://h.test/z")
    assert main(["retry", str(tmp_path), "http://h.test/a/2", "--priority", "0"]) == 0
    assert capsys.readouterr().out == "1 URL requeued, 0 already pending\n"
    with DurableFrontier(tmp_path, delay=0.0) as frontier:
        assert frontier.visit_again(["http://h.test/a/1"], priority=0) == 1
        urls = []
        while (lease := frontier.take()) is not None:
            frontier.finish(lease)
            urls.append(lease.url)
        assert urls == ["http://h.test/a/2", "http://h.test/a/1", "http://h.test/z"]
