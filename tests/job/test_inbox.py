"""URLs put into a job while it lives: nothing is lost between who has them and the queue."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import PolitenessSettings
from crawler.engine.lifecycle import Stop
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.inbox import INBOX, KEPT, Answer, Inbox, UrlBatch
from crawler.job.job import Job
from tests.driving import Driven
from tests.jobs import OPTIONS, PAGES, rows, stopped_job, verify
from tests.laboratory import SETTINGS
from tests.program import crawler, running, wait_until
from tests.simulated_web import SimulatedWeb
from tests.site import Site, linked, tree


def inbox(directory: Path) -> Inbox:
    return Inbox(directory, RealDisk())


def test_what_is_left_is_found_in_order(tmp_path: Path) -> None:
    box = inbox(tmp_path)
    assert box.waiting() == []
    names = [box.deposit([f"http://h.test/{number}"], seed=number == 1, answer=number == 2) for number in range(3)]
    assert box.waiting() == names
    url_batches = [box.read(name) for name in names]
    assert [url_batch.urls for url_batch in url_batches] == [(f"http://h.test/{number}",) for number in range(3)]
    assert [url_batch.seed for url_batch in url_batches] == [False, True, False]
    for url_batch in url_batches:
        box.close_batch(url_batch, Answer(1, 2, 3, (("x", "why"),), 4))
    assert box.waiting() == []
    assert box.answer(names[0]) is None, "nobody asked"
    assert box.answer(names[2]) == Answer(1, 2, 3, (("x", "why"),), 4)
    assert list((tmp_path / INBOX).iterdir()) == []


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    box = inbox(tmp_path)
    name = box.deposit(["http://h.test/"], seed=False, answer=False)
    path = tmp_path / INBOX / f"{name}.urls"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(EnvelopeError):
            box.read(name)


def test_old_answers_go_and_strange_files_are_named(tmp_path: Path) -> None:
    box = inbox(tmp_path)
    name = box.deposit(["http://h.test/"], seed=False, answer=True)
    box.close_batch(box.read(name), Answer())
    kept = tmp_path / INBOX / f"{name}.answer"
    (tmp_path / INBOX / "notes.txt").write_text("mine")
    written = kept.stat().st_mtime
    assert box.foreign(written + KEPT - 1) == ["notes.txt"]
    assert kept.exists()
    assert box.foreign(written + KEPT + 1) == ["notes.txt"]
    assert not kept.exists()
    first = box.set_aside("notes.txt")
    (tmp_path / INBOX / "notes.txt").write_text("mine too")
    second = box.set_aside("notes.txt")
    assert (first.read_text(), second.read_text()) == ("mine", "mine too")
    assert box.foreign(written) == []


def test_a_running_crawl_takes_urls_in_and_answers(tmp_path: Path) -> None:
    pages = {**tree(200), "/extra": linked(["/deeper"]), "/deeper": "end"}
    with Site(pages, 2) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        job = tmp_path / "job"
        with running(tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0.2", "--quiet") as process:
            wait_until(lambda: len(site.asked) > 2, "the crawl is under way")
            other = site.url("/", host=1)
            ran = crawler("add", job, site.url("/extra"), site.url("/"), other)
            assert (ran.code, ran.out) == (0, "1 admitted, 1 known, 1 out of scope, 0 invalid\n"), ran.err
            ran = crawler("add", job, "-", "--seed", stdin=f"{other.replace('//', '//me:secret@')}\n\n# no\nnonsense\n")
            assert (ran.code, ran.out) == (0, "1 admitted, 0 known, 0 out of scope, 1 invalid\n"), ran.err
            assert "skipped: nonsense: " in ran.err
            assert "1 URL with credentials, which are not sent: put the credentials into the configuration" in ran.err
            assert "secret" not in ran.err
            (job / INBOX / "strange").write_text("?")
            wait_until(lambda: not (job / INBOX / "strange").exists(), "it is set aside")
            process.kill()
            process.wait()
        assert crawler("add", job, site.url("/extra")).out == "0 admitted, 1 known, 0 out of scope, 0 invalid\n"
        ran = crawler(tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0", "--quiet")
        assert ran.code == 0, ran.err
        found = {row["url"]: row for row in rows(job)}
        assert found[site.url("/extra")]["depth"] == 0
        assert found[site.url("/deeper")]["via"] == site.url("/extra")
        assert other in found
        assert site.url("/page/199", host=1) in found, "a seed widens the scope"
        assert verify(job).code == 0


@pytest.mark.parametrize("path", ["late", ""])
async def test_a_crawl_ends_though_a_file_was_closed_after_all_in_it_was_done(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, began = Inbox.close_batch, time.time()

    def slowly(box: Inbox, url_batch: UrlBatch, answer: Answer) -> None:
        time.sleep(0.5)
        close(box, url_batch, answer)

    async def seeds() -> AsyncIterator[list[str]]:
        yield ["http://h.test/"]

    monkeypatch.setattr(Inbox, "close_batch", slowly)
    inbox(tmp_path).deposit([f"http://h.test/{path}"], seed=False, answer=False)
    settings = replace(SETTINGS, politeness=PolitenessSettings(delay=0.0))
    with closing(Job(tmp_path, settings, began)) as job:
        web = SimulatedWeb({"http://h.test/": "x", "http://h.test/late": "y"})
        assert await Driven(job, web, settings, time.time, seeds()).to_the_end() is Stop.FINISHED


def test_urls_wait_for_the_next_run_and_damage_is_set_aside(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 5) as made:
        made.site.pages["/extra"] = "end"
        ran = crawler("add", made.job, made.site.url("/extra"), "--no-wait")
        assert (ran.code, ran.out) == (0, "1 left in the inbox\n")
        name = inbox(made.job).deposit(["http://h.test/"], seed=True, answer=False)
        path = made.job / INBOX / f"{name}.urls"
        path.write_bytes(path.read_bytes()[:-9])
        assert verify(made.job).find("file-damaged", place=f"{name}.urls")
        ran = made.resume(made.job)
        assert ran.code == 0, ran.err
        assert f"{name}.urls" in ran.err
        assert len({row["url"] for row in rows(made.job)}) == len(rows(made.job)) == PAGES + 1
        assert (made.job / INBOX / "aside" / f"{name}.urls").exists()
        assert verify(made.job).code == 0


def test_what_cannot_be_added_is_said_in_one_line(tmp_path: Path) -> None:
    ran = crawler("add", tmp_path, "http://h.test/")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    with stopped_job(tmp_path, 5) as made:
        ran = crawler("add", made.job, "nonsense")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        ran = crawler("add", made.job, "-", made.site.url("/"))
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert not (made.job / INBOX).exists()


def test_a_crawl_that_dies_before_it_removes_the_file_admits_once(tmp_path: Path) -> None:
    """The file is still there: it is taken in again, and the seen-set answers."""
    with stopped_job(tmp_path, 5) as made:
        made.site.pages["/extra"] = "end"
        box = inbox(made.job)
        name = box.deposit([made.site.url("/extra")], seed=False, answer=True)
        path = made.job / INBOX / f"{name}.urls"
        data = path.read_bytes()
        assert crawler("add", made.job, made.site.url("/extra")).code == 0
        assert box.answer(name) == Answer(admitted=1)
        path.write_bytes(data)
        os.sync()
        assert made.resume(made.job, *OPTIONS).code == 0
        assert box.answer(name) == Answer(known=1)
        assert [row["url"] for row in rows(made.job)].count(made.site.url("/extra")) == 1
        assert verify(made.job).code == 0
