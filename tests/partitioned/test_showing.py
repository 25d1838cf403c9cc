"""``explain``, ``verify``, ``report``, ``export``, ``top`` and the dashboard of a crawl directory; what others say."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.asked import enters, opened
from tests.partitioned.crawls import PAGES, PARTITIONS, Crawled, address_of, crawled, told, tree_of
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

OUTPUTS = ("--output", "links,warc")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    with crawled(tmp_path_factory.mktemp("a") / "crawl", *OUTPUTS, limits={1: 9}) as crawl:
        yield crawl


def test_a_url_is_explained_by_the_partition_that_it_belongs_to(made: Crawled) -> None:
    for number, site in made.sites.items():
        found = told("explain", made.directory, site.url("/"))
        assert found["partition"] == {"number": number, "of": PARTITIONS, "begun": True}
        assert found["record"]["url"] == site.url("/")
        own = told("explain", made.part(number), site.url("/"))
        assert own["record"] == found["record"]
        assert own["partition"] is None
    other = told("explain", made.directory, f"http://{address_of(2)}/")
    assert other["partition"] == {"number": 2, "of": PARTITIONS, "begun": False}
    assert other["record"] is None
    assert "partition: 01 of 4" in crawler("explain", made.directory, made.sites[1].url("/")).out
    for text in ("mailto:a@b.test", "not-a-url", "a b", "http://", ""):
        refused = crawler("explain", made.directory, text)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_verify_takes_all_partitions(made: Crawled) -> None:
    before = tree_of(made.directory)
    assert told("verify", made.directory) == {"whole": True, "findings": []}
    assert crawler("verify", made.directory).out == f"{made.directory}: whole\n"
    assert tree_of(made.directory) == before


def found_in(directory: Path) -> set[tuple[str, int]]:
    ran = crawler("verify", directory, "--json")
    assert ran.code == 1, ran.out
    return {(each["kind"], each["partition"]) for each in json.loads(ran.out)["findings"]}


def test_verify_finds_what_belongs_elsewhere(made: Crawled, tmp_path: Path) -> None:
    copy = Crawled(tmp_path / "crawl", made.sites)
    shutil.copytree(made.directory, copy.directory)
    copy.part(3).rename(copy.part(2))
    assert found_in(copy.directory) == {("host-elsewhere", 2)}


def test_the_report_counts_all_partitions(made: Crawled, tmp_path: Path) -> None:
    ran = crawler("report", made.directory, "--out", tmp_path / "crawl.html")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"{tmp_path / 'crawl.html'}: 28 URLs, 0 broken;")
    page = (tmp_path / "crawl.html").read_text()
    for site in made.sites.values():
        assert site.hosts[0] in page


def test_an_export_is_the_partitions_one_after_the_other(made: Crawled, tmp_path: Path) -> None:
    def rows(out: Path, table: str) -> list[dict[str, Any]]:
        return list(pq.read_table(out / f"{table}.parquet").to_pylist())

    ran = crawler("export", made.directory, "--parquet", tmp_path / "all")
    assert ran.code == 0, ran.err
    pages, links = rows(tmp_path / "all", "pages"), rows(tmp_path / "all", "links")
    assert [page["record"] for page in pages] == list(range(1, 29))
    assert Counter(page["partition"] for page in pages) == {0: 12, 1: 9, 3: 7}
    those, others = [], []
    for number, job in made.parts.items():
        assert crawler("export", job, "--parquet", tmp_path / str(number)).code == 0
        those += [(page["url"], page["fetched_at"]) for page in rows(tmp_path / str(number), "pages")]
        others += [(link["from"], link["to"]) for link in rows(tmp_path / str(number), "links")]
        assert "partition" not in rows(tmp_path / str(number), "pages")[0]
    assert [(page["url"], page["fetched_at"]) for page in pages] == those
    assert [(link["from"], link["to"]) for link in links] == others
    of = {page["record"]: page["url"] for page in pages}
    assert all(of[link["record"]] == link["from"] for link in links)
    assert {row["host"]: row["partition"] for row in rows(tmp_path / "all", "hosts")} == {
        site.hosts[0]: number for number, site in made.sites.items()
    }
    query = "SELECT partition, count(*) FROM links JOIN records USING (record) WHERE url = links.from GROUP BY 1"
    of_partition = dict(row.split(",") for row in crawler("sql", made.directory, "--csv", query).out.split()[1:])
    assert sum(map(int, of_partition.values())) == len(links)
    assert set(of_partition) == {"0", "1", "3"}
    table = csv.DictReader(crawler("export", made.directory, "--csv", "-").out.splitlines())
    assert [(row["url"], int(row["partition"])) for row in table] == [(row["url"], row["partition"]) for row in pages]


def recorded(crawl: Crawled) -> Counter[str]:
    """The URLs of all records."""
    lines = (line for job in crawl.parts.values() for line in (job / "pages.jsonl").read_bytes().splitlines())
    return Counter(json.loads(line)["url"] for line in lines)


def rows_of(index: bytes) -> list[dict[str, str]]:
    lines = index.splitlines()
    assert lines == sorted(lines)
    return [json.loads(line.split(b" ", 2)[2]) for line in lines]


def check_record(row: dict[str, str], data: bytes) -> None:
    """A reader of others finds in the file what a row of the index says."""
    start = int(row["offset"])
    (record,) = ArchiveIterator(io.BytesIO(data[start : start + int(row["length"])]))
    assert record.rec_headers["WARC-Target-URI"] == row["url"]
    assert record.rec_headers.get("WARC-Payload-Digest", "") == row["digest"]


def test_the_index_of_all_archives_is_one(made: Crawled, tmp_path: Path) -> None:
    out = tmp_path / "index.cdxj"
    for _ in range(2):  # the second one takes the place of the first
        ran = crawler("export", made.directory, "--cdxj", out)
        assert ran.code == 0, ran.err
    rows = rows_of(out.read_bytes())
    assert Counter(row["url"] for row in rows if not row["url"].endswith("/robots.txt")) == recorded(made)
    assert len({row["filename"] for row in rows}) == 3
    for row in rows:
        check_record(row, (made.directory / row["filename"]).read_bytes())


def test_the_package_of_all_archives_is_one(made: Crawled, tmp_path: Path) -> None:
    out = tmp_path / "crawl.wacz"
    ran = crawler("export", made.directory, "--wacz", out)
    assert ran.code == 0, ran.err
    assert "28 pages" in ran.out
    with zipfile.ZipFile(out) as package:
        archives = {name: package.read(name) for name in package.namelist() if name.startswith("archive/")}
        pages = [json.loads(line)["url"] for line in package.read("pages/pages.jsonl").splitlines()[1:]]
        index = gzip.decompress(package.read("indexes/index.cdx.gz"))
        described = json.loads(package.read("datapackage.json"))["resources"]
    assert Counter(pages) == recorded(made)
    assert len(archives) == 3
    assert len({each["name"] for each in described}) == len(described)
    rows = rows_of(index)
    for row in rows:
        check_record(row, archives[f"archive/{row['filename']}"])
    read = Counter[str]()
    for data in archives.values():
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise"):
            read[record.rec_headers["WARC-Target-URI"]] += record.rec_type in ("response", "revisit")
            record.content_stream().read()
    assert +read == Counter(row["url"] for row in rows)


def test_an_older_crawl_of_partitions_is_known(made: Crawled, tmp_path: Path) -> None:
    seeds = [site.url("/page/1") for site in made.sites.values()]
    options = ("--allow-private", "--delay", "0", "--quiet", "--max-depth", "1", "--known", made.directory)
    ran = crawler(*seeds, "--job", tmp_path / "new", *options)
    assert ran.code == 0, ran.err
    stats = told("stats", tmp_path / "new")
    assert stats["urls_known"] > 0
    assert stats["urls_admitted"] == len(seeds)  # all links of theirs are known


def ask(url: str, path: str) -> bytes:
    with opened(url + path) as answer:
        return bytes(answer.read())


def test_the_dashboard_shows_the_crawl_as_one_job(made: Crawled) -> None:
    with running("dashboard", made.directory) as process:
        url = enters(process.stdout)
        stats, whole = json.loads(ask(url, "api/stats")), told("stats", made.directory)
        assert {key: stats[key] for key in ("pages_fetched", "urls_admitted", "partitions", "hosts_by_state")} == {
            key: whole[key] for key in ("pages_fetched", "urls_admitted", "partitions", "hosts_by_state")
        }
        hosts = json.loads(ask(url, "api/hosts?sort=fetched&limit=2&offset=1"))
        assert (hosts["total"], [row["partition"] for row in hosts["hosts"]]) == (3, [1, 3])
        page = json.loads(ask(url, f"api/hosts/{made.sites[3].hosts[0]}"))
        assert page["partition"] == 3
        assert len(page["recent"]) == 7
        metrics = ask(url, "metrics").decode()
        assert "crawler_pages_fetched_total 28.0" in metrics
        assert re.search(r'crawler_seen_slice_urls\{slice="03-0"\} 7.0', metrics), metrics
        wait_until(lambda: json.loads(ask(url, "api/survey"))["complete"], "all records counted")
        assert json.loads(ask(url, "api/survey"))["records"] == 28
        changes = json.loads(ask(url, "api/changes?limit=20"))
        rest = json.loads(ask(url, f"api/changes?since={changes['cursor']}"))
        assert len(changes["changes"]) == 20
        assert len({each["url"] for each in [*changes["changes"], *rest["changes"]]}) == 28
        assert len(ask(url, "api/download/records.jsonl").splitlines()) == 28
        assert ask(url, "api/download/hosts.csv").count(b"\n") == 4
        assert b"<html" in ask(url, "api/download/report.html")
        lines = json.loads(ask(url, f"api/explain?url={made.sites[1].url('/')}"))["lines"]
        assert {"what": "partition", "text": "01 of 4"} in lines
        about = json.loads(ask(url, "api/job"))
        assert about["name"] == "crawl"
        assert about["began_at"] is not None
        log = [event["text"] for event in json.loads(ask(url, "api/log"))["events"]]
        assert any(text.startswith("partition 01: ") for text in log)


def test_a_crawl_stands_as_one_job_in_the_list(made: Crawled, tmp_path: Path) -> None:
    with running("dashboard", made.directory, made.part(0)) as process:
        url = enters(process.stdout)

        def pages() -> dict[str, Any]:
            return {job["name"]: job["pages"] for job in json.loads(ask(url, "api/jobs"))["jobs"]}

        # A list that is not read yet may be empty.
        wait_until(lambda: pages().keys() == {"crawl", "00"} and None not in pages().values(), "the jobs read")
        assert pages() == {"crawl": 28, "00": 12}
        assert json.loads(ask(url, "jobs/crawl/api/stats"))["pages_fetched"] == 28


def test_the_dashboard_follows_partitions_that_run(tmp_path: Path) -> None:
    with (
        crawled(tmp_path / "crawl") as made,
        Site(tree(60), latency=0.1, address=(address_of(2), 0)) as site,
        running("dashboard", made.directory) as process,
    ):
        url = enters(process.stdout)

        def stats() -> dict[str, Any]:
            return dict(json.loads(ask(url, "api/stats")))

        assert stats()["state"] == "ended"
        options = ("--allow-private", "--delay", "0", "--per-host", "1", "--quiet")
        with running(site.url("/"), "--job", made.beside(2), *options):
            wait_until(lambda: stats()["state"] == "running", "the crawl seen")
            wait_until(lambda: stats()["pages_fetched"] > sum(PAGES.values()), "its pages seen")
            assert json.loads(ask(url, "api/hosts"))["total"] == PARTITIONS
        wait_until(lambda: stats()["state"] != "running", "its end seen")
