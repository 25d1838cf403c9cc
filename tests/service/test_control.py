"""The dashboard's buttons on a real crawl: what they answer, and what the crawl does."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.asked import free_port, knows, opened
from tests.program import running, wait_until
from tests.site import Site, tree

OPTIONS = ("--allow-private", "--delay", "0.05", "--quiet", "--dashboard", "0")


class Board:
    """A crawl's dashboard, asked as a program would."""

    def __init__(self, job: Path) -> None:
        self.job = job
        wait_until((job / "live.json").exists, "a crawl that says what it does")
        self.url = knows(json.loads((job / "live.json").read_text())["dashboard"], job)

    def get(self, path: str) -> Any:
        with opened(self.url + path) as answer:
            return json.load(answer)

    def control(self, **asked: str) -> tuple[int, dict[str, Any]]:
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}api/control", json.dumps(asked).encode(), kind)
        try:
            with opened(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def fetched(self) -> int:
        return int(self.get("api/stats")["pages_fetched"])

    def told(self, kind: str) -> list[str]:
        return [event["text"] for event in self.get("api/log")["events"] if event["kind"] == kind]


@contextmanager
def crawled(directory: Path, pages: int = 4_000, ports: int = 1) -> Iterator[tuple[Site, Any, Board]]:
    with Site(tree(pages), ports=ports) as site:
        seeds = directory / "seeds.txt"
        seeds.write_text("".join(f"{site.url('/', host)}\n" for host in range(ports)))
        with running(seeds, "--job", directory / "job", *OPTIONS) as process:
            yield site, process, Board(directory / "job")


def test_a_crawl_is_paused_checkpointed_resumed_and_stopped(tmp_path: Path) -> None:
    with crawled(tmp_path) as (site, process, board):
        wait_until(lambda: board.fetched() > 3, "some pages")
        assert board.control(do="pause") == (200, {"done": True})
        wait_until(lambda: board.get("api/stats")["urls_in_flight"] == 0, "nothing in flight")
        stats, asked = board.get("api/stats"), len(site.asked)
        before = (stats["checkpoint"] or {"generation": 0})["generation"]
        assert board.control(do="checkpoint") == (200, {"done": True})
        assert board.get("api/stats")["checkpoint"]["generation"] == before + 1
        # A checkpoint takes a while; not a page was asked for meanwhile.
        assert len(site.asked) == asked
        assert board.control(do="resume") == (200, {"done": True})
        wait_until(lambda: board.fetched() > stats["pages_fetched"], "pages again")
        wait_until(lambda: board.told("checkpoint") != [], "the checkpoint told")
        assert board.control(do="stop") == (200, {"done": True})
        assert process.wait() == 130
    history = (board.job / "history.json").read_text()
    assert history.startswith("crawler-history 1 ")


def test_one_host_is_paused_resumed_and_blocked(tmp_path: Path) -> None:
    with crawled(tmp_path, ports=2) as (site, _, board):
        wait_until(lambda: board.fetched() > 5, "some pages")
        for name in site.hosts:
            wait_until(lambda name=name: board.get(f"api/hosts/{name}")["fetched"] > 1, "pages of each host")
        paused, other = site.hosts
        assert board.control(do="pause-host", host=paused)[0] == 200
        wait_until(lambda: board.get(f"api/hosts/{paused}")["in_flight"] == 0, "nothing of it in flight")
        held, went = (board.get(f"api/hosts/{name}")["fetched"] for name in site.hosts)
        wait_until(lambda: board.get(f"api/hosts/{other}")["fetched"] > went + 3, "pages of the other")
        row = board.get(f"api/hosts/{paused}")
        assert (row["state"], row["fetched"]) == ("paused", held)
        assert board.control(do="resume-host", host=paused)[0] == 200
        wait_until(lambda: board.get(f"api/hosts/{paused}")["fetched"] > held, "pages of it again")
        assert board.control(do="block-host", host=paused)[0] == 200
        wait_until(lambda: board.get("api/stats")["urls_excluded"] > 3, "its URLs excluded")
        assert board.get(f"api/hosts/{paused}")["state"] == "blocked"


def test_what_makes_no_sense_is_refused_with_a_line(tmp_path: Path) -> None:
    with crawled(tmp_path) as (_, _, board):
        status, _answer = board.control(do="explode")
        assert status == 400
        assert board.control(do="pause-host")[0] == 400
        assert board.control(do="pause-host", host="nobody.test:80") == (
            409,
            {"error": "no URL of that host was admitted"},
        )
        knows(board.url, "wrong")
        assert board.control(do="stop")[0] == 401


def test_what_happens_to_hosts_and_urls_is_told(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    config = tmp_path / "once.toml"
    config.write_text('[retry]\ntries = 9\nfirst_wait = 0.02\n[politeness]\nbackoff_first = 0.02\npatience = "short"\n')
    dead = f"http://127.0.0.1:{free_port()}/"
    with Site(tree(60)) as site:
        seeds.write_text("\n".join([site.url("/"), *(f"{dead}{name}" for name in "abc")]) + "\n")
        with running(seeds, "--job", tmp_path / "job", "--config", config, "--ignore-robots", *OPTIONS):
            board = Board(tmp_path / "job")
            wait_until(lambda: board.told("retired") != [], "the dead host given up")
            assert any("refused" in text for text in board.told("backoff"))
            wait_until(lambda: len(board.told("error")) == 3, "its URLs told as failed")
            assert board.told("error")[0].startswith(dead)
            assert board.told("run") == ["started"]


def test_a_request_that_waits_for_its_turn_does_not_go_out_while_the_crawl_is_paused(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    with Site(tree(400)) as site:
        seeds.write_text(site.url("/") + "\n")
        with running(seeds, "--job", tmp_path / "job", "--rate", "1", *OPTIONS):
            board = Board(tmp_path / "job")
            wait_until(lambda: board.fetched() > 1, "two pages")
            wait_until(lambda: board.get("api/stats")["urls_in_flight"] == 1, "one that waits")
            assert board.control(do="pause")[0] == 200
            asked = len(site.asked)
            wait_until(lambda: board.get("api/stats")["urls_in_flight"] == 0, "the one that waited given back")
            assert len(site.asked) == asked
            assert board.control(do="resume")[0] == 200
            wait_until(lambda: len(site.asked) > asked + 1, "it goes on")
