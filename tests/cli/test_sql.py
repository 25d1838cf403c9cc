"""``crawler sql`` and ``crawler export --csv``: what the records say, and nothing but the job."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from crawler.cli import main
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.live_status import Live, write_live
from tests.program import crawler, running, wait_until
from tests.site import Site, linked

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawled site that lacks two pages, with the links of its pages."""
    job = tmp_path_factory.mktemp("sql") / "job"
    words = "<title>=1+1</title>" + "<p>words</p>" * 9
    pages = {"/": linked(["/a", "/b", "/gone"]), "/a": linked(["/gone", "/lost"]), "/b": words}
    with Site(pages) as site:
        ran = crawler(site.url("/"), "--job", job, "--allow-private", "--delay", "0", "--output", "links")
    assert ran.code == 0, ran.err
    return job


@pytest.fixture
def visited(tmp_path: Path) -> Path:
    """A job with two pages: one is found unchanged when it is visited again, the other missing."""
    with DurableFrontier(tmp_path / "job", delay=0) as frontier:
        frontier.add(["https://h.test/1", "https://h.test/2"])
        for statuses in ({"1": 200, "2": 200}, {"1": 304, "2": 404}):
            frontier.visit_again(host="h.test:443")
            while (lease := frontier.take(now=1e10)) is not None:
                frontier.finish(lease, status=statuses[lease.url[-1]])
    return tmp_path / "job"


def asked(job: Path, query: str, capsys: Captured) -> list[tuple[Any, ...]]:
    assert main(["sql", str(job), "--json", query]) == 0
    return [tuple(json.loads(line).values()) for line in capsys.readouterr().out.splitlines()]


def refused(capsys: Captured, *words: str | Path, code: int = 2) -> str:
    """What a command says that fails with one line."""
    assert main(["sql", *map(str, words)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_answers_are_those_of_the_records(site: Path, capsys: Captured) -> None:
    found = [json.loads(line) for line in (site / "pages.jsonl").read_text().splitlines()]
    at = "strftime(fetched_at, '%Y-%m-%dT%H:%M:%S.%gZ')"
    rows = asked(site, f"SELECT url, status, {at}, kept FROM records ORDER BY record", capsys)
    assert rows == [(each["url"], each["status"], each["fetched_at"], each.get("kept")) for each in found]
    query = (
        "SELECT page.url, missing.url FROM pages page JOIN links USING (record) "
        "JOIN pages missing ON missing.url = links.to WHERE missing.status = 404 ORDER BY ALL"
    )
    home = found[0]["url"]
    linking = [("", "gone"), ("a", "gone"), ("a", "lost")]
    assert asked(site, query, capsys) == [(home + page, home + missing) for page, missing in linking]
    twice = "WITH good AS (FROM records WHERE status = 200) SELECT count(*) FROM good a JOIN good b USING (status)"
    assert asked(site, twice, capsys) == [(9,)]
    assert asked(site, "SELECT host, fetched FROM hosts", capsys) == [(home[7:-1], 5)]
    several = "CREATE VIEW v AS FROM pages; INSERT INTO links (record) VALUES (7); SELECT count(*) FROM v, links"
    assert asked(site, several, capsys) == [(5 * 6,)]


def test_pages_are_the_last_records_that_say_what_is_there(visited: Path, capsys: Captured) -> None:
    assert asked(visited, "SELECT url[-1], status FROM records ORDER BY ALL", capsys) == [
        *(("1", 200), ("1", 304), ("2", 200), ("2", 404))
    ]
    assert asked(visited, "SELECT url[-1], status, visit FROM pages ORDER BY ALL", capsys) == [
        *(("1", 200, 1), ("2", 404, 2))
    ]


def test_of_a_running_job_only_what_no_crash_can_undo_is_asked(tmp_path: Path, capsys: Captured) -> None:
    with DurableFrontier(tmp_path, delay=0) as frontier:
        frontier.add([f"https://h.test/{number}" for number in range(5)])
        while (lease := frontier.take(now=1e10)) is not None:
            frontier.finish(lease, status=200)
        frontier.sync()
        lines = (tmp_path / "pages.jsonl").read_bytes().splitlines(keepends=True)
        write_live(tmp_path, Live({}, {}, len(b"".join(lines[:3])), None, []))
        with open(tmp_path / "pages.jsonl", "ab") as stream:
            stream.write(b'{"url":"https://h.te')
        assert asked(tmp_path, "SELECT count(*) FROM pages", capsys) == [(3,)]
        (tmp_path / "pages.jsonl").write_bytes(b"".join(lines))


def test_damage_is_no_answer(visited: Path, capsys: Captured) -> None:
    pages = visited / "pages.jsonl"
    whole = pages.read_bytes()
    pages.write_bytes(whole + b'{"url":"https://h.te')  # as a kill leaves it
    assert asked(visited, "SELECT count(*) FROM records", capsys) == [(4,)]
    pages.write_bytes(whole.replace(b'\n{"url"', b'\n["url"', 1))
    assert "crawler verify" in refused(capsys, visited, "SELECT count(*) FROM records", code=1)
    assert main(["export", str(visited), "--csv", str(visited.with_name("out.csv"))]) == 1
    assert not visited.with_name("out.csv").exists()


def test_a_query_reaches_nothing_but_the_job(site: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out"
    for query in (
        f"COPY pages TO '{out}'",
        f"ATTACH '{out}'",
        f"EXPORT DATABASE '{out}'",
        "FROM read_text('/etc/passwd')",
        "FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "COPY links FROM '/etc/passwd'",
        "FROM glob('/*')",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "FROM source",  # a variable of the program
        "FROM query('FROM rec' || 'ords')",  # it is not read for this, so it must not look empty
    ):
        refused(capsys, site, query)
    assert not out.exists()


def test_what_is_wrong_is_said_in_a_line(site: Path, tmp_path: Path, capsys: Captured) -> None:
    assert '"pages"' in refused(capsys, site, "SELECT * FROM page")
    assert '"url"' in refused(capsys, site, "SELECT ulr FROM pages")
    assert "--output" in refused(capsys, site, "SELECT count(*) FROM text")
    for words in (
        ("",),
        ("-- nothing",),
        ("SELEC 1",),
        ("SELECT ?",),
        ("SELECT", "1"),
        ("SELECT url::int FROM pages",),
    ):
        refused(capsys, site, *words)
    refused(capsys, tmp_path, "SELECT 1")
    # The text of a link is not the table.
    assert len(asked(site, "SELECT text FROM links", capsys)) == 5


def test_without_duckdb_the_line_says_how_to_install_it(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install" in refused(capsys, site, "SELECT 1")
    assert main(["sql", str(site)]) == 0


def test_an_interruption_ends_a_long_query(site: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with running("sql", site, "SELECT count(*) FROM range(1000000000000)", env=environment) as process:
        wait_until(lambda: any(tmp_path.glob("crawler-sql-*")), "the query has begun")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, b"")
    assert list(tmp_path.iterdir()) == []


def test_no_cell_of_a_table_commands_the_terminal(site: Path, capsys: Captured) -> None:
    assert main(["sql", str(site), "SELECT chr(27) || '[2J' || chr(10) || chr(8238) AS cell, -1.5 AS n"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [r"\x1b[2J\n\u202e  -1.5"]


def test_the_records_as_one_table_for_spreadsheets(site: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out.csv"
    for _ in range(2):  # an earlier one is replaced
        assert main(["export", str(site), "--csv", str(out)]) == 0
    found = {row["url"]: row for row in csv.DictReader(out.read_text("utf-8").splitlines())}
    records = [json.loads(line) for line in (site / "pages.jsonl").read_text().splitlines()]
    assert [(row["url"], row["status"]) for row in found.values()] == [(r["url"], str(r["status"])) for r in records]
    home = records[0]
    assert json.loads(found[home["url"]]["kept"]) == home["kept"]
    assert found[home["url"] + "b"]["title"] == "'=1+1"
    capsys.readouterr()
    assert main(["export", str(site), "--csv", "-"]) == 0
    assert capsys.readouterr().out.splitlines() == out.read_text("utf-8").splitlines()
    out.write_text("mine")
    assert main(["export", str(site), "--csv", str(out)]) == 2
    assert out.read_text() == "mine"
    query = "SELECT title, -1 AS n, INTERVAL 3 DAY AS i, [-1] AS l FROM pages WHERE title LIKE '=%'"
    assert main(["sql", str(site), query, "--csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["title,n,i,l", "'=1+1,-1,3 days,[-1]"]
