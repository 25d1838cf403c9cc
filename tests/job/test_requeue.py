"""Finished URLs that are put back: each is visited once more, also if the process dies anywhere in between."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.disk import CRASH_AT
from crawler.base.kv import Family
from crawler.base.settings.parts import RecrawlSettings
from crawler.cli import main
from crawler.frontier.entry import decode_entry
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.live_status import read_live
from crawler.job.metrics.catalogue import URL_KINDS
from crawler.job.output.finished import Choice, Past, rules_of, select
from crawler.job.platform import Platform
from crawler.web.fetch import Failure, FailureKind
from tests.durability.power import Inline
from tests.jobs import rows, verify
from tests.laboratory import Laboratory, links
from tests.memory_store import MemoryStore
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

REFUSED = Failure(FailureKind.REFUSED, "connection refused", 0.0)
DEAD = [f"http://dead.test/{number}" for number in range(30)]


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """A page that links to thirty of a host that is dead, until its pages are replaced."""
    return Laboratory(tmp_path / "job", {"http://live.test/": links(DEAD), **dict.fromkeys(DEAD, REFUSED)})


def read(laboratory: Laboratory, choice: Choice) -> list[Past]:
    lines = (laboratory.directory / "pages.jsonl").read_bytes().splitlines(keepends=True)
    return [past for past in select(lambda: lines, choice) if past is not None]


def opened(laboratory: Laboratory) -> Job:
    platform = Platform(open_store=lambda _: laboratory.store, executor=Inline)
    return Job(laboratory.directory, laboratory.settings, laboratory.now, platform)


def pending(store: MemoryStore) -> Counter[str]:
    return Counter(decode_entry(value).href for _, value in store.rows(Family.PENDING))


def test_failed_urls_are_visited_once_more_and_their_host_is_asked_again(laboratory: Laboratory) -> None:
    laboratory.run("http://live.test/")
    assert Counter(record["outcome"] for record in laboratory.of("dead.test")) == {"failed": 30}
    past = read(laboratory, Choice(failed=True))
    assert {each.href for each in past} == set(DEAD)
    assert set(past) >= {Past(DEAD[0], 1, "http://live.test/", 1, last=URL_KINDS.index("failed"))}
    job = opened(laboratory)
    assert job.put_back("batch", past, len(past), ()) == 30
    assert job.put_back("batch", past, len(past), ()) == 0, "they are pending"
    assert job.counters.pending == job.frontier.queued == 30
    assert pending(laboratory.store) == Counter(DEAD)
    job.close()
    laboratory.pages.update(dict.fromkeys(DEAD, "<p>here"))
    laboratory.run("http://live.test/")
    again = laboratory.of("dead.test")[30:]
    assert Counter(record["url"] for record in again) == Counter(DEAD)
    assert {
        (record["outcome"], record["visit"], record["changed"], record["depth"], record["via"]) for record in again
    } == {("fetched", 2, None, 1, "http://live.test/")}
    assert not laboratory.store.scan(Family.PAGES, b""), "they are not visited again and again"
    assert not read(laboratory, Choice(failed=True)), "only the last record of a URL counts"
    job = opened(laboratory)
    assert (job.counters.revisits, job.counters.revisits_pending, job.counters.pages_scheduled) == (30, 0, 0)
    assert (job.counters.pages_failed, job.counters.urls) == (30, [job.counters.pages_fetched, *[0] * 7])
    job.close()


def test_a_url_that_is_visited_again_and_again_keeps_its_place_in_the_schedule(laboratory: Laboratory) -> None:
    laboratory.settings = replace(laboratory.settings, recrawl=RecrawlSettings(enabled=True, mean_interval=5000.0))
    laboratory.run("http://live.test/", max_time=2000)
    job = opened(laboratory)
    scheduled = job.counters.pages_scheduled
    past = read(laboratory, Choice(host="dead.test"))
    assert len(past) == 30
    assert job.put_back("batch", past, 30, ()) == 30
    assert job.counters.pages_scheduled == scheduled - 30
    job.close()
    laboratory.pages.update(dict.fromkeys(DEAD, "<p>here"))
    laboratory.run(max_time=100)
    assert Counter(record.get("visit") for record in laboratory.of("dead.test")[30:]) == {2: 30}
    job = opened(laboratory)
    assert job.counters.pages_scheduled == scheduled
    job.close()


def record(url: str, outcome: str = "failed", **other: Any) -> bytes:
    row = {"url": url, "status": None, "error": None, "outcome": outcome, "depth": 1, "via": None, **other}
    return json.dumps(row).encode() + b"\n"


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (Choice(failed=True), "a c"),
        (Choice(excluded="robots"), "d"),
        (Choice(excluded="disallowed"), "d"),
        (Choice(excluded="blocked-port"), "e"),
        (Choice(excluded="traps.max_variants"), "f"),
        (Choice(excluded="traps"), "f"),
        (Choice(excluded="trap"), ""),
        (Choice(failed=True, excluded="robots"), "a c d"),
        (Choice(failed=True, host="c.test"), "c"),
        (Choice(host="c.test:80"), "c"),
        (Choice(host="c.test:443"), ""),
        (Choice(hrefs=frozenset(["http://b.test/", "http://unknown.test/"])), "b"),
    ],
)
def test_what_is_selected(choice: Choice, found: str) -> None:
    lines = [
        record("http://b.test/"),
        record("http://a.test/", "fetched"),
        record("http://a.test/", visit=2),
        record("http://b.test/", "fetched", visit=2),
        b"not a record\n",
        record("http://c.test/"),
        record("http://d.test/", "excluded", error="disallowed by robots.txt"),
        record("http://e.test/", "excluded", error="blocked port 25", rule="blocked-port"),
        record("http://f.test/", "excluded", error="traps.max_variants: more than 5"),
        record("javascript:"),
        record("http://g.test"),
        record("http://h.test/\u00e4"),
    ]
    hrefs = [past.href for past in select(lambda: lines, choice) if past is not None]
    assert hrefs == [f"http://{letter}.test/" for letter in found.split()]
    rules = rules_of(lines)
    assert rules == {"robots", "blocked-port", "traps.max_variants"}
    assert all(any(select(lambda: lines, Choice(excluded=rule))) for rule in rules), "each of them may be named"


def test_a_batch_that_was_begun_is_carried_on_where_it_was(laboratory: Laboratory) -> None:
    """The process dies after a part was queued, and that part is finished by the time the batch is read again."""
    laboratory.run("http://live.test/")
    past = read(laboratory, Choice(failed=True))
    job = opened(laboratory)
    inbox = Inbox(laboratory.directory, job.disk)
    name = inbox.put_back(past, answer=True)
    job.put_back("of an earlier life", past[:1], 1, ())
    job.put_back(name, past[:10], 10, ())
    job.close()
    laboratory.run()
    answer = inbox.answer(name)
    assert answer is not None
    assert (answer.admitted, answer.known) == (20, 0)
    assert Counter(record["url"] for record in laboratory.of("dead.test")[30:]) == Counter(DEAD)
    job = opened(laboratory)
    assert not laboratory.store.scan(Family.META, b"put-back/", b"put-back0")
    job.close()


def test_a_record_of_another_visit_that_a_power_loss_takes_is_made_again(laboratory: Laboratory) -> None:
    laboratory.run("http://live.test/")
    job = opened(laboratory)
    job.put_back("batch", read(laboratory, Choice(hrefs=frozenset(DEAD[:1]))), 1, ())
    job.close()
    laboratory.run()
    path = laboratory.directory / "pages.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    job = opened(laboratory)
    assert (job.counters.pending, job.counters.revisits_pending) == (1, 1)
    job.close()
    laboratory.run()
    assert (laboratory.records()[-1]["url"], laboratory.records()[-1]["visit"]) == (DEAD[0], 2)
    assert len(laboratory.records()) == whole.count(b"\n")
    assert not laboratory.store.scan(Family.PAGES, b"")


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", ["scalable", "exact", "cuckoo"])
def test_the_command_with_a_stopped_job(tmp_path: Path, seen: str, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tree(20)
    broken = {path: pages.pop(path) for path in list(pages)[5:9]}
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(pages) as site:
        seeds.write_text(site.url("/") + "\n")
        options = (seeds, "--job", job, "--allow-private", "--delay", "0", "--quiet", "--seen", seen)
        assert crawler(*options).code == 0
        missing = [row["url"] for row in rows(job) if row["status"] == 404]
        assert missing
        site.pages |= broken  # type: ignore[operator]
        ran = crawler("retry", job, *missing, site.url("/nowhere"))
        assert (ran.code, ran.out) == (1, f"{len(missing)} URLs requeued, 0 already pending\n"), ran.err
        assert ran.err == f"{site.url('/nowhere')} is not finished here, or has another outcome or host\n"
        ran = crawler("retry", job, "--excluded", "robot")
        unknown = "this job knows no finished URL of the host nohost\n"
        for words, err in (
            (["--host", "nohost"], unknown),
            (["--host", "nohost", "--failed"], unknown),
            (["--host", site.hosts[0].partition(":")[0], "--failed"], ""),
            (["--host", site.hosts[0], "--failed"], ""),
        ):
            assert main(["retry", str(job), *words]) == 0
            assert tuple(capsys.readouterr()) == ("0 URLs requeued, 0 already pending\n", err)
        ran = crawler("retry", job, *missing)
        assert (ran.code, ran.out) == (0, f"0 URLs requeued, {len(missing)} already pending\n"), ran.err
        assert crawler(*options).code == 0
    assert Counter(row["url"] for row in rows(job) if row.get("visit") == 2) == Counter(missing)
    assert verify(job).code == 0


@pytest.mark.parametrize(
    "point", ["inbox.written", "inbox.admitted", "inbox.answered", "step.written:2", "step.marked:3"]
)
def test_a_command_that_is_killed_and_given_again_queues_each_url_once(tmp_path: Path, point: str) -> None:
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(20)) as site:
        seeds.write_text(site.url("/") + "\n")
        options = (seeds, "--job", job, "--allow-private", "--delay", "0", "--quiet")
        assert crawler(*options).code == 0
        urls = [row["url"] for row in rows(job)]
        host = urls[0].split("/")[2]
        killed = crawler("retry", job, "--host", host, env={CRASH_AT: point})
        assert killed.code == -signal.SIGKILL, killed.err
        ran = crawler("retry", job, "--host", host)
        assert ran.code == 0, ran.err
        assert crawler(*options).code == 0
    assert Counter(row["url"] for row in rows(job)) == dict.fromkeys(urls, 2)
    assert verify(job).code == 0


def post(job: Path, address: str, asked: dict[str, Any], path: str = "retry") -> tuple[int, dict[str, Any]]:
    token = (job / "dashboard-token").read_text().strip()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{address}api/{path}", json.dumps(asked).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {}


def test_the_command_and_the_dashboard_beside_a_crawl(tmp_path: Path) -> None:
    """The crawl has more to do when the command comes: it takes the URLs from its inbox, and answers."""
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    with Site(tree(60)) as site:
        seeds.write_text(site.url("/") + "\n")
        options = ("--allow-private", "--delay", "0.5", "--quiet", "--dashboard", "0")
        with running(seeds, "--job", job, *options) as crawl:
            wait_until(lambda: (live := read_live(job)) is not None and bool(live.output_end), "a record is durable")
            ran = crawler("retry", job, site.url("/"))
            assert (ran.code, ran.out) == (0, "1 URL requeued, 0 already pending\n"), ran.err
            wait_until(lambda: [asked.path for asked in site.asked].count("/") == 2, "it is visited again")
            live = read_live(job)
            assert live is not None
            assert live.dashboard is not None
            for wrong in ({}, {"pattern": "x", "class": 1}, {"pattern": "*", "class": 8}, {"pattern": "*"}):
                assert post(job, live.dashboard, wrong, "priority")[0] == 400
            status, answer = post(job, live.dashboard, {"pattern": site.url("/*"), "class": 6}, "priority")
            assert (status, list(answer)) == (200, ["moved"])
            assert post(job, live.dashboard, {"failed": True, "priority": 8})[0] == 400
            assert post(job, live.dashboard, {"urls": [site.url("/"), site.url("/nowhere")]}) in (
                (200, {"queued": 1, "pending": 0}),
                (200, {"queued": 0, "pending": 1}),  # the second visit is not finished
            )
            bare = site.hosts[0]  # a URL without a scheme is one here too
            status, answer = post(job, live.dashboard, {"urls": [bare, "nonsense"]}, "urls")
            assert (status, answer["known"], answer["completed"]) == (
                200,
                1,
                [{"url": bare, "taken_as": f"http://{bare}"}],
            )
            status, answer = post(job, live.dashboard, {"urls": [bare]})
            assert (status, answer["queued"] + answer["pending"]) == (200, 1)
            assert post(job, live.dashboard, {"failed": True}) == (200, {"queued": 0, "pending": 0})
            for senseless in ({}, {"failed": 1}, {"urls": [7]}, {"host": ""}, {"other": True}):
                assert post(job, live.dashboard, senseless)[0] == 400
            crawl.send_signal(signal.SIGINT)
            crawl.wait()
    assert [row.get("visit") for row in rows(job) if row["url"] == site.url("/")][:2] == [None, 2]
