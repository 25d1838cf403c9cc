"""A spider with requests of all kinds, whole and killed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from crawler.inspect.job_reader import job_stats
from tests.jobs import rows, verify
from tests.tools.scrapy.web import CLOSED, PAGES, PYTHON, SpiderRun, Web, run_spider, saw, site

# A program that imports Scrapy takes seconds where the machine is busy.
pytestmark = pytest.mark.timeout(300)

# How often each path is asked for by a spider that nobody kills.
ONCE = (
    *(f"/page/{number}" for number in range(PAGES)),
    *(f"/priority/{priority}" for priority in (-5, 10**12, 7)),
    *("/", "/once", "/missing", "/old", "/new", "/raises", "/before-it-raised", "/told", "/in-memory"),
    "/after-a-failure/HttpError",
    "/after-a-failure/ConnectionRefusedError",
)
WANTED = Counter(dict.fromkeys(ONCE, 1) | dict.fromkeys(("/post", "/again", "/flaky"), 2))
# Depends on when the spider is killed: what is only in memory dies with it; a page that has to be tried again is well
# at the second time, even if that is after a kill; what nothing is a duplicate of is sent again if its page is.
NOT_EXACT = ("/in-memory", "/flaky", "/again")


def paths(job: Path) -> Counter[str]:
    """How many records each path of the site has. What a kill left behind the last transaction is not done."""
    done = rows(job)[: sum(job_stats(job)["urls_by_outcome"].values())]
    return Counter(urlsplit(row["url"]).path for row in done if not row["url"].startswith(CLOSED))


FEEDS = json.dumps({"items.jsonl": {"format": "jsonlines"}})


def items(folder: Path) -> set[str]:
    """The paths of the items in the feed."""
    file = folder / "items.jsonl"
    return (
        {urlsplit(json.loads(line)["url"]).path for line in file.read_text().splitlines()} if file.exists() else set()
    )


class Whole:
    """A spider that ran to its end, one request at a time."""

    def __init__(self, web: Web, folder: Path) -> None:
        self.web, self.folder, self.job = web, folder, folder / "job"
        self.ran: SpiderRun = run_spider(web, folder, CONCURRENT_REQUESTS="1")
        self.saw = saw(folder)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.saw if each["kind"] == kind]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with site() as web:
        yield Whole(web, tmp_path_factory.mktemp("whole"))


def test_each_request_is_sent_as_often_as_it_was_wanted(whole: Whole) -> None:
    assert whole.ran.code == 0, whole.ran.log
    assert whole.web.counts() == WANTED
    assert "Closing spider (finished)" in whole.ran.log


def test_requests_keep_what_they_were_made_of(whole: Whole) -> None:
    assert sorted((each["text"], each["body"]) for each in whole.of("posted")) == [("a", "text=a"), ("b", "text=b")]
    (told,) = whole.of("told")
    assert told["deep"] == {"list": [1, "two"]}
    assert (told["word"], told["flags"]) == ("kept", ["flagged"])
    assert told["echo"] == ["mine", "biscuit=sweet"]


def test_errbacks_are_called_and_what_they_yield_is_sent(whole: Whole) -> None:
    failed = {each["url"]: each["error"] for each in whole.of("failed")}
    assert failed == {f"{whole.web.url}/missing": "HttpError", CLOSED: "ConnectionRefusedError"}


def test_a_redirect_keeps_the_meta_of_its_request(whole: Whole) -> None:
    (new,) = (each for each in whole.of("other") if each["url"].endswith("/new"))
    assert new["came_from"] == "old"


def test_the_larger_priority_goes_first(whole: Whole) -> None:
    order = [path for _, path, _ in whole.web.asked if path.startswith("/priority/")]
    assert order == ["/priority/1000000000000", "/priority/7", "/priority/-5"]
    places = [path for _, path, _ in whole.web.asked]
    assert places.index("/priority/7") < places.index("/once") < places.index("/priority/-5")


def test_what_cannot_be_serialised_is_said_once_and_counted(whole: Whole) -> None:
    assert whole.ran.stats["scheduler/unserializable"] == whole.ran.stats["scheduler/enqueued/memory"] == 1
    assert [each["url"] for each in whole.of("in-memory")] == [f"{whole.web.url}/in-memory"]


def test_the_stats_of_scrapy_are_counted(whole: Whole) -> None:
    stats = whole.ran.stats
    assert stats["scheduler/enqueued"] == stats["scheduler/dequeued"] == sum(WANTED.values()) + 2
    assert stats["scheduler/enqueued/disk"] == stats["scheduler/dequeued/disk"] == stats["scheduler/enqueued"] - 1
    assert stats["dupefilter/filtered"] > 1
    assert stats["spider_exceptions/ValueError"] == 1


def test_the_job_of_a_spider_is_a_job(whole: Whole) -> None:
    assert verify(whole.job).code == 0
    stats = job_stats(whole.job)
    assert stats["state"] == "ended"
    # Not the one in memory; two tries of what refuses connections.
    done = sum(WANTED.values()) - 1 + 2
    assert (stats["urls_admitted"], stats["urls_pending"]) == (done, 0)
    outcomes = Counter((row["outcome"], row["status"]) for row in rows(whole.job))
    assert outcomes == {
        ("fetched", 200): sum(WANTED.values()) - 4,  # less /old, /missing, the first /flaky, /in-memory
        ("fetched", 404): 1,
        ("redirect", None): 3,  # /old, and what is tried again: /flaky, and what refuses connections
        ("failed", None): 1,
    }
    assert stats["seen"]["kind"] == "scalable"
    assert stats["urls_duplicate"] == whole.ran.stats["dupefilter/filtered"]
    assert stats["seen"]["expected_urls_skipped"] < 0.01
    (old,) = (row for row in rows(whole.job) if urlsplit(row["url"]).path == "/old")
    assert old["location"] == f"{whole.web.url}/new"
    (refused,) = (row for row in rows(whole.job) if row["outcome"] == "failed")
    assert refused["error"].removeprefix("Download").startswith("ConnectionRefusedError")


def test_sigkill_loses_nothing_and_repeats_at_most_what_was_out(tmp_path: Path) -> None:
    job = tmp_path / "job"
    finished: dict[str, int] = {}  # how often what is done was asked for
    with site() as web:
        for kill_at in (6, 30, 20):
            killed = run_spider(web, tmp_path, kill_at=kill_at, CONCURRENT_REQUESTS="4", FEEDS=FEEDS)
            assert killed.code == -9, killed.log
            asked, done = web.counts(), paths(job)
            now = {path for path in asked if path not in NOT_EXACT and done[path] == WANTED[path]}
            finished = {path: asked[path] for path in now} | finished
            assert {path for path in done if path.startswith("/page/")} <= items(tmp_path), "items of what is done"
            assert verify(job).code == 0
        ended = run_spider(web, tmp_path, CONCURRENT_REQUESTS="4", FEEDS=FEEDS)

        assert ended.code == 0, ended.log
        assert "Resuming crawl" in ended.log
        counts, records = web.counts(), paths(job)
        wanted = {path: times for path, times in WANTED.items() if path not in NOT_EXACT}
        assert wanted.keys() <= counts.keys(), "lost"
        assert {path: records[path] for path in wanted} == wanted, "each is done once"
        assert {path: counts[path] for path in finished} == finished, "what was done is not asked for again"
        assert ended.stats["scheduler/start/resumed"] == 1
        assert 2 <= records["/again"] <= 2 * counts["/"]
        assert verify(job).code == 0
    bodies = {each["body"] for each in saw(tmp_path) if each["kind"] == "posted"}
    assert bodies == {"text=a", "text=b"}
    assert {json.dumps(each["deep"]) for each in saw(tmp_path) if each["kind"] == "told"} == {'{"list": [1, "two"]}'}


def test_another_spider_is_refused(whole: Whole, tmp_path: Path) -> None:
    other = tmp_path / "other_spider.py"
    text = Path(__file__).with_name("kinds_spider.py").read_text()
    other.write_text(text.replace('name = "kinds"', 'name = "others"'))
    before, state = len(whole.web.asked), (whole.job / "spider.state").read_bytes()

    ran = run_spider(whole.web, tmp_path, spider=other, JOBDIR=str(whole.job))

    said = "is the job of the spider 'kinds', not of 'others': give each spider its own JOBDIR"
    (line,) = (line for line in ran.log.splitlines() if "CRITICAL" in line)
    assert line.endswith(said)
    assert "AttributeError" not in ran.log
    assert (whole.job / "spider.state").read_bytes() == state != b""
    assert ran.code == 1 or sys.executable != PYTHON, "earlier versions of Scrapy exit with 0"
    assert len(whole.web.asked) == before
    assert verify(whole.job).code == 0


def test_a_scheduler_whose_dupefilter_was_forgotten_has_that_of_scrapy(tmp_path: Path) -> None:
    with site() as web:
        ran = run_spider(web, tmp_path, DUPEFILTER_CLASS=None)

        assert ran.code == 0, ran.log
        assert web.counts() == WANTED
    assert verify(tmp_path / "job").code == 0
    assert (tmp_path / "job" / "requests.seen").exists()


def test_a_spider_without_a_jobdir_has_a_directory_until_it_closes(tmp_path: Path) -> None:
    with site() as web:
        ran = run_spider(web, tmp_path, JOBDIR=None)

        assert ran.code == 0, ran.log
        assert web.counts() == WANTED
    assert [path.name for path in tmp_path.iterdir()] == ["saw.jsonl"]
