"""Notices by webhook, to a real receiver on loopback that is well, slow, dead or broken."""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import NotifySettings
from crawler.cli.options import words_of
from crawler.engine.lifecycle import Stop
from crawler.service.notices import AGAIN, LASTS, Notice, Notices, NoticeWatch, Patience
from tests.job.metrics.samples import statistics
from tests.job.metrics.test_attention import SOUND
from tests.program import crawler, running
from tests.site import Site, tree

PATH = "/services/T0/secret-of-the-hook"
IMPATIENT = Patience(timeout=0.4, waits=(0.01, 0.01), last=1.5)


class Receiver:
    """Takes notices. ``answers`` are the statuses of the next answers, then 200; 0: no answer until the test ends."""

    def __init__(self, *answers: int) -> None:
        self.taken: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.asked: list[str] = []
        self._answers = list(answers)
        self.over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver._answers.pop(0) if receiver._answers else 200
                if not status:
                    receiver.over.wait(30)
                    return
                if status == 200:
                    receiver.taken.put((self.headers["Content-Type"], json.loads(body)))
                self.send_response(status)
                if status in (302, 307):
                    self.send_header("Location", f"{receiver.base}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        self.url = self.base + PATH
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def all(self) -> list[Any]:
        found = []
        while not self.taken.empty():
            kind, content = self.taken.get()
            assert kind == "application/json"
            found.append(content)
        return found

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiver(*answers: int) -> Iterator[Receiver]:
    with closing(Receiver(*answers)) as made:
        yield made


def sound(**changes: Any) -> dict[str, Any]:
    stats = statistics() | SOUND
    stats["seen"] = stats["seen"] | {"count_suspect": False}
    return stats | changes


async def told(url: str, job: Path, notices: int = 1, patience: Patience = IMPATIENT, **options: Any) -> None:
    """Tell of a few ends."""
    given = Notices(NotifySettings(url=url, **options), job, lambda: 1_700_000_000.0, patience)
    async with given.delivering():
        for _ in range(notices):
            given.end(Stop.FINISHED, sound(urls_by_outcome={"fetched": 1_234, "failed": 3}, text_failed=1))


# -- what is told ------------------------------------------------------------------------------------------------


def test_a_pause_is_told_once_when_it_lasts_and_so_is_its_end() -> None:
    watch, full = NoticeWatch(), sound(paused="paused by user", paused_by="user")
    assert watch.observe(0.0, sound()) == []
    assert watch.observe(1.0, full) == [], "it may be short"
    assert watch.observe(1.0 + LASTS, full) == [Notice("pause", "user", "paused: paused by user")]
    assert watch.observe(900.0, full) == []
    assert watch.observe(901.0, sound()) == [Notice("resume", "user", "resumed")]
    assert watch.observe(902.0, full) == []
    assert watch.observe(903.0, sound()) == [], "what was not told has no end"


@pytest.mark.parametrize("by", ["hours", "schedule"])
def test_what_was_planned_is_not_told(by: str) -> None:
    watch = NoticeWatch()
    assert [watch.observe(now, sound(paused="until 22:00", paused_by=by)) for now in (0.0, 100.0)] == [[], []]


def test_a_reason_is_told_again_only_after_it_was_gone_for_long() -> None:
    watch, bad = NoticeWatch(), sound(pages_code_failed=1)
    (first,) = watch.observe(0.0, bad)
    assert (first.event, first.kind) == ("attention", "code-fails")
    assert [watch.observe(now, bad) for now in (1.0, AGAIN, 2 * AGAIN - 2)] == [[], [], []]
    assert watch.observe(2 * AGAIN, sound()) == []
    assert watch.observe(3 * AGAIN, bad) != []


# -- how it is delivered -----------------------------------------------------------------------------------------


async def test_only_what_was_asked_for_is_told(tmp_path: Path) -> None:
    with receiver() as there:
        await told(there.url, tmp_path, events=("pause",))
        assert there.asked == []


@pytest.mark.parametrize("answers", [(500,), (503, 500), (429,), (0,)])
async def test_what_passes_is_tried_again(tmp_path: Path, answers: tuple[int, ...]) -> None:
    with receiver(*answers) as there:
        await told(there.url, tmp_path)
        (content,) = there.all()
        assert "text-fails" in {need["kind"] for need in content["needs"]}, "all that the page shows"
        assert len(there.asked) == len(answers) + 1


async def test_what_lasts_is_given_up_at_once_and_the_secret_is_not_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver(404) as there:
        await told(there.url, tmp_path)
        assert len(there.asked) == 1
        assert f"{there.base.removeprefix('http://')} did not accept a notice: it answered 404" in caplog.text
    assert "secret-of-the-hook" not in caplog.text


async def test_tries_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with receiver(500, 500, 500, 500) as there:
        await told(there.url, tmp_path)
        assert len(there.asked) == len(IMPATIENT.waits) + 1
    assert "it answered 500" in caplog.text


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_is_not_followed(tmp_path: Path, status: int) -> None:
    with receiver(status) as there:
        await told(there.url, tmp_path)
        assert there.asked == [PATH]


async def test_the_end_does_not_wait_for_a_dead_receiver(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with receiver(*[0] * 100) as there:
        await told(there.url, tmp_path, notices=100, patience=replace(IMPATIENT, timeout=3_600.0, last=0.1))
    assert "dropped the oldest" in caplog.text
    assert "did not accept the last notice: no answer within 0.1 s" in caplog.text
    with receiver() as gone:
        pass
    for waits in (0.01, 9.0):  # the last one is given up before its second try
        caplog.clear()
        await told(gone.url, tmp_path, patience=replace(IMPATIENT, waits=(waits,), last=0.3))
        assert "it cannot be reached" in caplog.text


async def test_an_error_is_told_and_goes_on(tmp_path: Path) -> None:
    with receiver() as there:
        given = Notices(NotifySettings(url=there.url), tmp_path / "x", float, IMPATIENT)
        with pytest.raises(ZeroDivisionError):
            async with given.delivering():
                raise ZeroDivisionError("a bug")
        (content,) = there.all()
        assert content["text"] == "crawl x: stopped with an error: ZeroDivisionError: a bug"


# -- the setting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h.test/",
        "http://user:pass@h.test/x",
        "h.test/hook",
        "http://",
        "http://h.test/a b",
        "env:1",
        "http://h.test:70000/x",
        "http://h..test/x",
    ],
)
def test_urls_that_are_refused_are_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from({"notify": {"url": url}}, "crawl.toml")
    assert "notify.url" in str(error.value)
    assert url not in str(error.value)


# -- a crawl -----------------------------------------------------------------------------------------------------


def configured(path: Path, url: str) -> Path:
    path.write_text(f'[notify]\nurl = "{url}"\n[fetch]\nallow_private = true\n[politeness]\ndelay = 0.0\n')
    return path


@pytest.mark.parametrize("more", [(), ("--notify",), ("--notify", "--partitions", "2")])
def test_a_crawl_tells_its_end_and_stores_no_secret(tmp_path: Path, more: tuple[str, ...]) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(5)) as site, receiver() as there:
        seeds.write_text(site.url("/") + "\n")
        config = configured(tmp_path / "c.toml", f"{there.base}/elsewhere" if more else there.url)
        ran = crawler(seeds, "--job", job, "--config", config, *more[:1], *([there.url] if more else []), *more[1:])
        assert ran.code == 0, ran.err
        (content,) = there.all()
        assert (content["job"], content["kind"], content["pages_fetched"]) == ("job", "finished", 5)
        assert there.asked == [PATH]
    stored = b"".join(path.read_bytes() for path in job.rglob("*") if path.is_file())
    assert b"secret-of-the-hook" not in stored
    assert "secret-of-the-hook" not in ran.err


def test_the_stored_command_has_the_webhook_only_by_reference() -> None:
    given = {"config": None, "parquet": None}
    assert words_of(Namespace(notify="env:HOOK", **given)) == ("--notify=env:HOOK",)
    assert words_of(Namespace(notify=f"http://h.test{PATH}", **given)) == ()


def test_a_crawl_whose_receiver_hangs_is_as_fast_and_ends_soon(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(30)) as site, receiver(*[0] * 20) as there:
        seeds.write_text(site.url("/") + "\n")
        config = configured(tmp_path / "c.toml", there.url)
        ran = crawler(seeds, "--job", job, "--config", config, "--quiet")
        assert ran.code == 0, ran.err
        assert "did not accept the last notice: no answer within 5 s" in ran.err
        assert len(site.pages_asked()) == 30


def test_an_interruption_is_told_with_what_is_left(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(60), latency=0.1) as site, receiver() as there:
        seeds.write_text(site.url("/") + "\n")
        config = configured(tmp_path / "c.toml", there.url)
        with running(seeds, "--job", job, "--config", config) as crawl:
            while len(site.pages_asked()) < 3:
                time.sleep(0.01)
            crawl.send_signal(signal.SIGINT)
            assert crawl.wait(30) == 130
        (content,) = there.all()
    assert content["kind"] == "interrupted"
    assert content["urls_pending"] > 0
    assert f"with {content['urls_pending']} URLs pending" in content["text"]
