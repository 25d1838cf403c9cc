"""``stats``, ``hosts``, ``tail`` of a crawl directory, by its partitions one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler import Job, JobError
from crawler.base.disk import RealDisk
from crawler.inspect.record_stream import CrawlTail
from crawler.job.crawl_file import leave_partition, return_to_partition
from tests.partitioned.crawls import PAGES, PARTITIONS, Crawled, crawled, told, tree_of
from tests.program import crawler, running, wait_until
from tests.site import Site, tree


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    with crawled(tmp_path_factory.mktemp("a") / "crawl", limits={1: 9}) as crawl:
        yield crawl


def test_statistics_are_the_sums_of_those_of_the_partitions(made: Crawled) -> None:
    before = tree_of(made.directory)
    whole, each = told("stats", made.directory), [told("stats", job) for job in made.parts.values()]
    for key in ("urls_admitted", "urls_pending", "urls_duplicate", "pages_fetched", "hosts", "bytes_fetched", "seeds"):
        assert whole[key] == sum(one[key] for one in each), key
    assert set(each[0]) <= set(whole)
    assert whole["state"] == "stopped"
    assert whole["hosts_by_state"]["ready"] == sum(one["hosts_by_state"]["ready"] for one in each)
    assert whole["outputs"]["pages"]["bytes"] == sum(one["outputs"]["pages"]["bytes"] for one in each)
    seen, those = whole["seen"], [one["seen"] for one in each]
    assert seen["count"] == sum(one["count"] for one in those)
    assert seen["expected_urls_skipped"] == pytest.approx(sum(one["expected_urls_skipped"] for one in those))
    admitted = [one["urls_admitted"] for one in each]
    mean = sum(one["fpp_estimated"] * weight for one, weight in zip(those, admitted, strict=True)) / sum(admitted)
    assert seen["fpp_estimated"] == pytest.approx(mean)
    assert seen["fpp_measured"]["sample"] == sum(one["fpp_measured"]["sample"] for one in those)
    assert [(one["partition"], one["count"]) for one in seen["slices"]] == [
        (number, one["count"]) for number, told_one in zip(made.parts, those, strict=True) for one in told_one["slices"]
    ]
    ages = {number: one["checkpoint"]["age_seconds"] for number, one in zip(made.parts, each, strict=True)}
    assert whole["checkpoint"]["partition"] == max(ages, key=lambda number: ages[number])
    states = {line["partition"]: line["state"] for line in whole["partitions"]}
    assert states == {0: "ended", 1: "stopped", 2: "absent", 3: "ended"}
    assert tree_of(made.directory) == before


def test_a_program_reads_a_crawl_as_it_reads_a_job(made: Crawled) -> None:
    whole, each = Job(made.directory), [Job(job) for job in made.parts.values()]
    assert whole.stats()["pages_fetched"] == sum(one.stats()["pages_fetched"] for one in each)
    records = [record["url"] for record in whole.records("fetched")]
    assert Counter(records) == Counter(record["url"] for one in each for record in one.records("fetched"))
    changes = list(whole.changes())
    assert [change["url"] for change in changes if change["change"] == "insert"] == records
    assert not list(whole.changes(changes[-1]["cursor"]))
    assert [(row["host"], row["partition"]) for row in whole.hosts()] == [
        (row["host"], number) for number, one in zip(made.parts, each, strict=True) for row in one.hosts()
    ]
    with pytest.raises(JobError):
        Job(made.directory / "partitions")


def test_a_partition_alone_says_to_which_another_url_belongs(made: Crawled) -> None:
    told_url = told("explain", made.part(0), made.sites[1].url("/"))
    assert told_url["partition"] == {"number": 1, "of": PARTITIONS, "begun": True}
    assert told("explain", made.part(0), made.sites[0].url("/")).get("partition") is None


def test_hosts_of_all_partitions_stand_in_one_order(made: Crawled) -> None:
    rows = told("hosts", made.directory, "--sort", "fetched")
    assert rows["total"] == len(PAGES)
    assert [row["partition"] for row in rows["hosts"]] == [0, 1, 3]
    assert [row["fetched"] for row in rows["hosts"]] == [12, 9, 7]
    first = told("hosts", made.directory, "--sort", "fetched", "--limit", "2")
    assert first == {**rows, "hosts": rows["hosts"][:2]}
    least = told("hosts", made.directory, "--sort", "fetched", "--order", "asc", "--limit", "1")
    assert least["hosts"] == rows["hosts"][2:]


def test_tail_shows_each_record_once_and_by_time(made: Crawled) -> None:
    ran = crawler("tail", made.directory, "--all")
    records = [json.loads(line) for line in ran.out.splitlines()]
    own = [line for job in made.parts.values() for line in crawler("tail", job, "--all").out.splitlines()]
    assert Counter(ran.out.splitlines()) == Counter(own)
    times = [record["fetched_at"] for record in records]
    assert times == sorted(times)
    last = crawler("tail", made.directory, "-n", "5").out.splitlines()
    assert last == ran.out.splitlines()[-5:]
    assert crawler("tail", made.directory, "-n", "0").out == ""


def test_a_cursor_goes_on_where_it_was(made: Crawled) -> None:
    lines = crawler("tail", made.directory, "--since", "0").out.splitlines()
    assert len(lines) == 12 + 9 + 7
    for place in (0, 11, 20, len(lines) - 1):
        cursor = json.loads(lines[place])["cursor"]
        assert crawler("tail", made.directory, "--since", cursor).out.splitlines() == lines[place + 1 :]


def test_a_cursor_stays_valid_while_a_partition_is_in_another_directory(made: Crawled) -> None:
    def since(cursor: str) -> tuple[Counter[str], str]:
        ran = crawler("tail", made.directory, "--since", cursor)
        assert ran.code == 0, ran.err
        records = [json.loads(line) for line in ran.out.splitlines()]
        return Counter(each["url"] for each in records), records[-1]["cursor"] if records else cursor

    following = CrawlTail(made.directory)
    assert following.resume("0")
    assert len(list(following.more())) == 12 + 9 + 7
    records = [json.loads(line) for line in crawler("tail", made.directory, "--since", "0").out.splitlines()]
    own = {json.loads(line)["url"] for line in crawler("tail", made.part(1), "--all").out.splitlines()}
    place = next(at for at, each in enumerate(records) if at > 5 and sum(one["url"] in own for one in records[:at]) > 2)
    shown, cursor = Counter(each["url"] for each in records[:place]), records[place - 1]["cursor"]
    leave_partition(RealDisk(), made.part(1))
    try:
        more, cursor = since(cursor)
        assert not list(following.more())
        lines = told("stats", made.directory)["partitions"]
        assert {line["partition"]: line["state"] for line in lines}[1] == "elsewhere"
        assert "1 partition of 4 in other directories" in crawler("stats", made.directory).out
    finally:
        return_to_partition(RealDisk(), made.part(1))
    assert not own & more.keys()
    rest, _ = since(cursor)
    assert not list(following.more()), "each once"
    assert rest.keys() <= own
    assert shown + more + rest == Counter(each["url"] for each in records)


def test_tail_follows_partitions_that_begin_later(tmp_path: Path) -> None:
    with crawled(tmp_path / "crawl") as made, Site(tree(5)) as late:
        shown: list[str] = []
        with running("tail", made.directory, "--all", "-f") as tail:
            for _ in made.urls():
                tail.stdout.readline()
            ran = Crawled(made.directory, {2: late}).run(2)
            assert ran.code == 0, ran.err
            for _ in range(5):
                shown.append(json.loads(tail.stdout.readline())["url"])
        assert sorted(shown) == sorted(late.url(path) for path in tree(5))


def test_a_running_crawl_is_looked_at_as_one(tmp_path: Path) -> None:
    with crawled(tmp_path / "crawl") as made, Site(tree(40), latency=0.2) as slow:
        options = ("--allow-private", "--delay", "0", "--per-host", "1", "--quiet")
        with running(slow.url("/"), "--job", made.beside(2), *options) as process:
            wait_until(lambda: told("stats", made.directory)["state"] == "running", "the crawl to run")
            stats = told("stats", made.directory)
            assert [line["state"] for line in stats["partitions"]] == ["ended", "ended", "running", "ended"]
            assert stats["partitions"][2]["process"] == process.pid
            assert stats["slots"]["total"] == told("stats", made.part(2))["slots"]["total"]
            assert told("hosts", made.directory)["total"] == PARTITIONS


def test_damage_is_told_with_its_partition(tmp_path: Path) -> None:
    with crawled(tmp_path / "crawl") as made:
        records = made.part(1) / "pages.jsonl"
        records.write_bytes(records.read_bytes().replace(b"{", b"x", 1))
        ran = crawler("tail", made.directory, "--all")
        assert ran.code == 1
        assert "partitions/01" in ran.err
        assert len(ran.err.splitlines()) == 1
