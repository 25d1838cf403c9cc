"""``crawler dashboard DIR DIR...``: several jobs on one page, which can start, resume and duplicate them."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from crawler.base.disk import RealDisk
from crawler.cli.launches import MOST_NAME
from crawler.job.job_lock import lock_holder
from crawler.job.last_command import COMMAND, LastCommand, read_command, write_command
from crawler.service.watched_jobs import jobs_in
from tests.asked import enters, opened, rights
from tests.jobs import Stopped, flip, repair, rows, stopped_job, verify
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

PAGES = 30
SLOW = ("--allow-private", "--delay", "0", "--quiet")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("jobs"), 20) as stopped:
        yield stopped


class Board:
    """The page of a process, asked as the browser asks."""

    def __init__(self, process: Any) -> None:
        self.url = enters(process.stdout)
        self.token = rights(self.url)["Authorization"].split()[1]

    def ask(self, path: str, content: Any = None, token: str | None = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of an answer. With ``content`` it is a POST."""
        data = None if content is None else json.dumps(content).encode()
        if data is not None:
            given = self.token if token is None else token
            headers = {"Authorization": f"Bearer {given}", "Content-Type": "application/json", **headers}
        try:
            with opened(urllib.request.Request(self.url + path, data, headers)) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")

    def rows(self) -> dict[str, Any]:
        return {row["name"]: row for row in self.ask("api/jobs")[1]["jobs"]}

    def wait(self, name: str, *states: str) -> Any:
        try:
            wait_until(lambda: self.rows().get(name, {}).get("state") in states, f"{name} is {states}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.rows().get(name)}") from None
        return self.rows()[name]


@contextmanager
def board(*words: str | Path, env: dict[str, str] | None = None) -> Iterator[Board]:
    with running("dashboard", *words, env=None if env is None else {**os.environ, **env}) as process:
        yield Board(process)


@contextmanager
def ended(*jobs: Path) -> Iterator[None]:
    """At the end no crawl of these jobs runs."""
    try:
        yield
    finally:
        for job in jobs:
            pid = lock_holder(job)
            if pid:
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda job=job: lock_holder(job) is None, "its end")  # type: ignore[misc]


def configuration(path: Path) -> Path:
    path.write_text("[fetch]\nallow_private = true\n[politeness]\ndelay = 0.0\n")
    return path


# -- the list ----------------------------------------------------------------------------------------------------


def test_jobs_are_listed_each_with_its_page_and_its_numbers(tmp_path: Path, made: Stopped) -> None:
    first, second = made.copy(tmp_path / "a" / "news"), made.copy(tmp_path / "b" / "news")
    made.copy(tmp_path / "many" / "one")
    with board(first, second, tmp_path / "many") as shown:
        for name in ("news", "b-news", "one"):
            row = shown.wait(name, "stopped")
            stats = shown.ask(f"jobs/{name}/api/stats")[1]
            assert row["pages"] == stats["pages_fetched"] == 20
            assert row["pending"] == stats["urls_pending"] > 0
            assert (row["failed"], row["running"], row["needs"]) == (0, False, [])
            hosts = shown.ask(f"jobs/{name}/api/hosts")[1]
            assert hosts["total"] == 1
            assert shown.ask(f"jobs/{name}/api/hosts/{hosts['hosts'][0]['host']}")[1]["fetched"] == 20
        with opened(f"{shown.url}jobs/one") as page:
            assert page.geturl() == f"{shown.url}jobs/one/", "addresses in the page are relative to that"
            assert b"page/main.js" in page.read()
        with opened(f"{shown.url}jobs/one/page/main.js") as script:
            assert script.status == 200
        assert shown.ask("jobs/two/api/stats")[0] == 404


def test_the_address_without_a_slash_leads_to_a_page_of_this_server_and_to_no_other(
    tmp_path: Path, made: Stopped
) -> None:
    made.copy(tmp_path / "https:evil.test")
    with board(tmp_path) as shown:
        shown.wait("https:evil.test", "stopped")
        here = urlsplit(shown.url)

        def led(path: str) -> tuple[int, str | None]:
            with closing(http.client.HTTPConnection(here.netloc)) as asked:
                asked.request("GET", path, headers=rights(shown.url))
                answer = asked.getresponse()
                answer.read()
                return answer.status, answer.getheader("Location")

        for path in ("/jobs/https:evil.test", "/jobs/https%3Aevil.test"):
            status, location = led(path)
            assert status == 307, "a browser remembers for ever what is permanent"
            assert location is not None
            assert urljoin(f"http://{here.netloc}{path}", location) == f"{shown.url}jobs/https%3Aevil.test/"
        for path in ("/jobs/https:other.test", "/jobs/javascript:alert(1)", "/jobs/%2F%2Fevil.test", "/jobs/none"):
            assert led(path) == (404, None)


def test_a_job_that_comes_is_shown_and_one_that_goes_is_not(tmp_path: Path, made: Stopped) -> None:
    made.copy(tmp_path / "many" / "one")
    with board(tmp_path / "many") as shown:
        shown.wait("one", "stopped")
        made.copy(tmp_path / "two")
        (tmp_path / "two").rename(tmp_path / "many" / "two")
        assert shown.wait("two", "stopped")["pages"] == 20
        shutil.rmtree(tmp_path / "many" / "one")
        wait_until(lambda: "one" not in shown.rows(), "it is gone")
        assert shown.ask("jobs/one/api/stats")[0] == 404


def test_a_damaged_job_is_shown_with_the_reason_and_does_not_keep_others_from_being_shown(
    tmp_path: Path, made: Stopped
) -> None:
    bad, good = made.copy(tmp_path / "bad"), made.copy(tmp_path / "good")
    (bad / "job.json").write_bytes(b"crawler-job 1 0\n{}")
    with board(bad, good) as shown:
        (need,) = shown.wait("bad", "unreadable")["needs"]
        assert need["kind"] == "unreadable"
        assert str(tmp_path) not in need["text"], "no paths of this machine"
        assert shown.wait("good", "stopped")["pages"] == 20
        assert shown.ask("jobs/bad/api/stats")[0] == 503


def test_a_running_crawl_is_shown_and_controlled_also_with_a_dashboard_of_its_own(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(PAGES), latency=0.2) as site:
        seeds.write_text(site.url("/") + "\n")
        with running(seeds, "--job", job, *SLOW, "--dashboard", "0") as crawl:
            wait_until((job / "live.json").exists, "a status")
            with board(tmp_path) as shown:
                assert shown.wait("job", "running")["running"]
                assert shown.ask("jobs/job/api/control", {"do": "pause"}, token="x" * 20)[0] == 401
                assert shown.ask("jobs/job/api/control", {"do": "pause"}) == (200, {"done": True})
                assert shown.wait("job", "paused")["paused_by"] == "user"
                assert shown.ask("jobs/job/api/control", {"do": "stop"}) == (200, {"done": True})
                crawl.wait(30)
                assert not shown.wait("job", "stopped")["running"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{}/none",), "none holds no crawl"),
        (("{}/empty", "{}/job"), "empty holds no job, and neither does any directory in it"),
        (("{}/job", "--config", "x.toml"), "give their directory with --new-jobs DIR"),
        (("{}/job", "--new-jobs", "{}/none"), "none is not a directory"),
        ((), "name one or more jobs"),
    ],
)
def test_what_cannot_be_shown_is_refused_at_once(
    tmp_path: Path, made: Stopped, words: tuple[str, ...], said: str
) -> None:
    made.copy(tmp_path / "job")
    (tmp_path / "empty").mkdir()
    ran = crawler("dashboard", *(word.format(tmp_path) for word in words))
    assert ran.code == 2
    assert said in ran.err


def test_jobs_in_directories(tmp_path: Path, made: Stopped) -> None:
    one = made.copy(tmp_path / "many" / "one")
    made.copy(tmp_path / "many" / ".hidden")
    (tmp_path / "many" / "file").touch()
    assert jobs_in([tmp_path / "many", one]) == [one], "each once"
    assert jobs_in([tmp_path / "none"]) == []


# -- starting ----------------------------------------------------------------------------------------------------


def test_crawls_outlive_a_dashboard_that_is_killed_and_two_others_resume_each_once(tmp_path: Path) -> None:
    new = tmp_path / "jobs"
    new.mkdir()
    words = ("--new-jobs", new, "--config", configuration(tmp_path / "base.toml"))
    with Site(tree(PAGES), latency=2.0) as site, ended(new / "fresh"):
        with running("dashboard", *words) as process:
            asked = {"name": "fresh", "seeds": [site.url("/")], "settings": ""}
            assert Board(process).ask("api/jobs", asked)[0] == 201
            process.kill()
            process.wait()
        crawl = lock_holder(new / "fresh")
        with board(*words) as one, board(*words) as other:
            boards = (one, other)
            assert [shown.wait("fresh", "running")["running"] for shown in boards] == [True, True]
            assert crawl is not None
            assert lock_holder(new / "fresh") == crawl
            wait_until(lambda: len(site.pages_asked()) > 2, "some pages")
            os.kill(crawl, signal.SIGKILL)
            for shown in boards:
                shown.wait("fresh", "stopped")
            with ThreadPoolExecutor(2) as pool:
                answers = list(pool.map(lambda shown: shown.ask("api/jobs/fresh/resume", {})[0], boards))
            assert sorted(answers) == [200, 409]
            site.latency = 0.0  # until here it lasts, so that it does not end before all others have begun
            for shown in boards:
                shown.wait("fresh", "ended")
        assert sorted(row["url"] for row in rows(new / "fresh")) == sorted(site.url(path) for path in tree(PAGES))
        assert len(site.pages_asked()) <= PAGES + 2, "what was in flight is asked for again, and no more"
        assert verify(new / "fresh").code == 0


def test_a_new_job_is_started_goes_on_without_the_dashboard_and_is_resumed(tmp_path: Path) -> None:
    new = tmp_path / "jobs"
    new.mkdir()
    with Site(tree(PAGES), latency=0.05) as site, ended(new / "fresh"):
        words = ("--new-jobs", new, "--config", configuration(tmp_path / "base.toml"))
        asked = {"name": "fresh", "seeds": [site.url("/")], "settings": "[crawl]\nmax_pages = 12\n"}
        with board(*words) as shown:
            status, answer = shown.ask("api/jobs", asked)
            assert (status, answer["name"]) == (201, "fresh"), answer
            assert shown.ask("jobs/fresh/api/stats")[0] == 200, "its page is there at once"
        wait_until(lambda: lock_holder(new / "fresh") is None, "the end of a crawl whose dashboard is gone")
        assert len(rows(new / "fresh")) >= 12
        for name in ("crawl.log", "seeds.txt", COMMAND):
            assert stat.S_IMODE((new / "fresh" / name).stat().st_mode) == 0o600
        with board(*words) as shown:
            assert shown.wait("fresh", "stopped")["pages"] == 12
            assert shown.ask("api/jobs/fresh/resume", {})[0] == 200, "it runs, if only to find its limit"
            shown.wait("fresh", "stopped")
            assert shown.ask("api/jobs/none/resume", {})[0] == 404


def test_a_stopped_job_is_resumed_with_its_settings_and_its_grown_seeds(tmp_path: Path) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(PAGES) | {"/later": "later"}, latency=0.02) as site, ended(job):
        seeds.write_text(site.url("/") + "\n")
        config = configuration(tmp_path / "base.toml")
        with running(seeds, "--job", job, "--config", config, "--quiet") as crawl:
            wait_until(lambda: len(site.pages_asked()) > 5, "pages")
            crawl.send_signal(signal.SIGINT)
            assert crawl.wait(30) == 130
        with open(seeds, "a") as stream:
            stream.write(site.url("/later") + "\n")
        with board(job, tmp_path) as shown:
            shown.wait("job", "stopped")
            assert shown.ask("api/jobs/job/resume", {})[0] == 200
            shown.wait("job", "ended")
        found = [row["url"] for row in rows(job)]
        assert sorted(found) == sorted({*(site.url(path) for path in tree(PAGES)), site.url("/later")})


def test_a_duplicate_has_the_seeds_and_settings_and_not_the_port(tmp_path: Path) -> None:
    job, seeds = tmp_path / "jobs" / "job", tmp_path / "seeds.txt"
    with Site(tree(PAGES), latency=0.1) as site, ended(job.with_name("twin")):
        seeds.write_text(site.url("/") + "\n")
        with running(seeds, "--job", job, *SLOW, "--dashboard", "0", "--max-pages", "25"):
            wait_until((job / "live.json").exists, "a status")
            with board(tmp_path / "jobs", "--new-jobs", tmp_path / "jobs") as shown:
                shown.wait("job", "running")
                status, answer = shown.ask("api/jobs/job/duplicate", {"name": "twin"})
                assert status == 201, answer
                shown.wait("twin", "stopped")
                assert len(rows(job.with_name("twin"))) >= 25
                assert read_command(job.with_name("twin")) is not None
                assert shown.ask("api/jobs/job/duplicate", {"name": "twin"})[0] == 409


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "../out", "seeds": ["http://h.test/"]}, 400, "a name has 1 to 64"),
    ({"name": ".hidden", "seeds": ["http://h.test/"]}, 400, "a name has 1 to 64"),
    ({"name": "a" * (MOST_NAME + 1), "seeds": ["http://h.test/"]}, 400, "a name has 1 to 64"),
    ({"name": "taken", "seeds": ["http://h.test/"]}, 409, "choose another name"),
    ({"name": "link", "seeds": ["http://h.test/"]}, 409, "choose another name"),
    ({"name": "x", "seeds": []}, 400, "1 to 10000 seeds"),
    ({"name": "x", "seeds": ["nonsense"]}, 400, "'nonsense' is not a valid seed"),
    ({"name": "x", "seeds": ["http://h.test/\nhttp://other.test/"]}, 400, "is not a valid seed"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": "[crawl"}, 400, "not TOML"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"crawl": {"max_page": 1}}}, 400, "did you mean"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"crawl": {"max_pages": "1"}}}, 400, "a whole number"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"hooks": {"on_page": "os:abort"}}}, 400, "cannot be set"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"fetch": {"allow_private": True}}}, 400, "cannot be set"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"fetch": {"ca_file": "/etc/x"}}}, 400, "cannot be set"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"site": [{"match": "h.test"}]}}, 400, "cannot be set"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"scope": {"include": ["@/etc/passwd"]}}}, 400, "file"),
    ({"name": "x", "seeds": ["http://h.test/"], "settings": {"politeness": {"per_host": 99}}}, 400, "per_host"),
    ({"name": "x", "seeds": ["http://h.test/"], "mode": "x"}, 400, "Send"),
]


def test_a_job_that_the_page_made_is_renamed_resumed_and_duplicated_with_seeds_of_its_own(tmp_path: Path) -> None:
    new = tmp_path / "jobs"
    new.mkdir()
    with Site(tree(PAGES) | {"/later": "later"}) as site, ended(new / "b", new / "twin"):
        words = ("--new-jobs", new, "--config", configuration(tmp_path / "base.toml"))
        with board(*words) as shown:
            assert shown.ask("api/jobs", {"name": "a", "seeds": [site.url("/")]})[0] == 201
            shown.wait("a", "ended")
            (new / "a").rename(new / "b")
            with open(new / "b" / "seeds.txt", "a") as seeds:
                seeds.write(site.url("/later") + "\n")
            shown.wait("b", "ended")
            status, answer = shown.ask("api/jobs/b/resume", {})
            assert (status, "gone" in answer["text"]) == (200, False)
            wait_until(lambda: len(rows(new / "b")) == PAGES + 1, "the seed that was added")
            status, answer = shown.ask("api/jobs/b/duplicate", {"name": "twin"})
            assert status == 201, answer
            shown.wait("twin", "ended")
            shown.wait("b", "ended")
        assert (new / "twin" / "seeds.txt").read_text() == (new / "b" / "seeds.txt").read_text()
        assert stat.S_IMODE((new / "twin" / "seeds.txt").stat().st_mode) == 0o600
        assert len(rows(new / "twin")) == PAGES + 1
        for name in ("b", "twin"):
            command = read_command(new / name)
            assert command is not None
            assert (command.seeds, command.own_seeds) == ((), ("seeds.txt",))


def test_what_is_refused_leaves_nothing(tmp_path: Path, made: Stopped) -> None:
    new = tmp_path / "jobs"
    made.copy(new / "taken")
    (new / "link").symlink_to(tmp_path / "elsewhere")
    with board("--new-jobs", new) as shown:
        before = sorted(new.iterdir())
        for asked, status, words in REFUSED:
            answer = shown.ask("api/jobs", asked)
            assert answer[0] == status, (asked, answer)
            assert words in answer[1]["error"]
            assert "\n" not in answer[1]["error"]
            assert sorted(new.iterdir()) == before
    assert not (tmp_path / "elsewhere").exists()
    with board(new) as shown:
        assert shown.ask("api/jobs", {"name": "x", "seeds": ["http://h.test/"]})[0] == 403
        assert not shown.ask("api/jobs")[1]["new_jobs"]


def test_a_crawl_that_fails_at_once_is_told_in_its_own_words_and_its_name_stays_free(tmp_path: Path) -> None:
    new, config = tmp_path / "jobs", tmp_path / "base.toml"
    new.mkdir()
    config.touch()
    with board("--new-jobs", new, "--config", config) as shown:
        config.write_text('[[site]]\nmatch = "https://h.test"\nlogin = "env:NO_SUCH_VARIABLE_HERE"\n')
        status, answer = shown.ask("api/jobs", {"name": "x", "seeds": ["http://h.test/"]})
        assert status == 400
        assert "NO_SUCH_VARIABLE_HERE" in answer["error"]
        assert [each.name for each in new.iterdir()] == ["dashboard-token"]
    refused = crawler("dashboard", "--new-jobs", new, "--config", config)
    assert refused.code == 2, "with such settings no new job could begin: the dashboard says so when it is started"
    assert "NO_SUCH_VARIABLE_HERE" in refused.err


def test_a_name_whose_crawl_died_with_its_dashboard_before_its_job_existed_is_free(tmp_path: Path) -> None:
    new = tmp_path / "jobs"
    for path in (new / "left" / "crawl.log", new / "left" / "crawl.log.1", new / "left" / "seeds.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("http://no-such-host.test/\n")
    (new / "file").touch()
    words = ("--new-jobs", new, "--config", configuration(tmp_path / "base.toml"))
    with Site(tree(3)) as site, ended(new / "left"), board(*words) as shown:
        assert shown.ask("api/jobs", {"name": "file", "seeds": [site.url("/")]})[0] == 409
        status, answer = shown.ask("api/jobs", {"name": "left", "seeds": [site.url("/")]})
        assert status == 201, answer
        assert shown.wait("left", "ended")["pages"] == 3
        assert shown.ask("api/jobs", {"name": "left", "seeds": [site.url("/")]})[0] == 409


def test_a_command_that_is_unknown_or_damaged_is_said(tmp_path: Path, made: Stopped) -> None:
    old, bad = made.copy(tmp_path / "old"), made.copy(tmp_path / "bad")
    (old / COMMAND).unlink(missing_ok=True)
    (bad / COMMAND).write_bytes(b"crawler-last-command 1 0\n{}")
    with board(tmp_path) as shown:
        for name, words in (("old", "unknown"), ("bad", "cannot read")):
            shown.wait(name, "stopped")
            status, answer = shown.ask(f"api/jobs/{name}/resume", {})
            assert status == 409
            assert words in answer["error"]


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_bit_of_a_command_that_has_flipped_is_found_and_the_file_moved_away(
    tmp_path: Path, made: Stopped, part: str
) -> None:
    job = made.copy(tmp_path / "job")
    write_command(RealDisk(), job, LastCommand(("https://h.test/",), ("--delay=0.5",), "/somewhere"))
    assert verify(job).findings == []
    flip(job / COMMAND, {"head": 25, "body": -9}[part])
    assert [(each["kind"], each["place"]) for each in verify(job).findings] == [("file-damaged", COMMAND)]
    assert repair(job).find("file-removed", file=COMMAND)
    assert verify(job).findings == []
    assert read_command(job) is None


def test_a_dashboard_that_is_interrupted_leaves_its_crawls_alone(tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of a terminal, and a crawl that was started here is not among them."""
    new = tmp_path / "jobs"
    new.mkdir()
    with Site(tree(PAGES), latency=0.3) as site, ended(new / "x"):
        words = ("--new-jobs", new, "--config", configuration(tmp_path / "base.toml"))
        with running("dashboard", *words) as process:
            shown = Board(process)
            assert shown.ask("api/jobs", {"name": "x", "seeds": [site.url("/")]})[0] == 201
            pid = lock_holder(new / "x")
            assert pid
            assert os.getsid(pid) == pid
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        assert lock_holder(new / "x") == pid
        assert subprocess.run(["kill", "-INT", str(pid)], check=True).returncode == 0
        wait_until(lambda: lock_holder(new / "x") is None, "its end")
