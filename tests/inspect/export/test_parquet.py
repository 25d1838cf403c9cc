"""``crawler export --parquet``: each record with its types, nothing lost, nothing of another's replaced."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.cli import main
from crawler.inspect.export.columns import OTHER, PAGES, Column, Kind, arrow_schema, columns_of
from crawler.inspect.export.tables import TABLES
from crawler.inspect.job_view import JobView
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.live_status import Live, write_live
from tests.documents import page
from tests.inspect.export.linking import linking_job
from tests.program import crawler
from tests.site import Site

SEEDS = [f"https://{host}.test/{number}" for host in "ab" for number in range(4)]


def visit_all(frontier: DurableFrontier) -> None:
    while (lease := frontier.take(now=1e10)) is not None:
        if lease.url.endswith("/3"):
            frontier.finish(lease, status=None, error="timeout: no answer", now=1_700_000_000.125)
        else:
            frontier.finish(lease, ["/missing"], status=404 if lease.url.endswith("missing") else 200)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job whose URLs are done, one of them twice."""
    with DurableFrontier(tmp_path / "news", delay=0) as frontier:
        frontier.add(SEEDS)
        visit_all(frontier)
        frontier.visit_again([SEEDS[0]])
        visit_all(frontier)
    return tmp_path / "news"


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def without_empty(row: dict[str, Any], absent: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and value != absent.get(name)}


def test_every_record_and_host_is_exported(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = job.with_name("out")
    assert main(["export", str(job), "--parquet", str(out)]) == 0
    lines = [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
    assert len(lines) == len(SEEDS) + 2 + 1
    absent = {column.name: column.absent for column in PAGES}
    found = rows(out / "pages.parquet")
    for number, (line, row) in enumerate(zip(lines, found, strict=True), 1):
        assert row.pop("record") == number
        assert row.pop("host") == line["url"][8:14] + ":443"
        moment = row["fetched_at"]
        assert moment.tzinfo is not None
        row["fetched_at"] = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert without_empty(row, absent) == without_empty(line, absent)
    assert [row["visit"] for row in found] == [1] * 10 + [2]
    assert {row["probe"] for row in found} == {False}
    hosts = [row | {"errors": dict(row["errors"])} for row in rows(out / "hosts.parquet")]
    assert [row | {OTHER: None} for row in JobView(job).hosts()] == hosts
    mark = json.loads((out / "export.json").read_text())
    assert mark["rows"] == {"pages": 11, "hosts": 2}
    assert (mark["job"], mark["running"]) == ("news", False)
    assert str(job) not in (out / "export.json").read_text()
    assert re.fullmatch(rf"{out}: 11 records, 2 hosts; [\d,]+ bytes\n", capsys.readouterr().out)
    assert sorted(path.name for path in job.parent.iterdir()) == ["news", "out"]


def test_of_a_running_job_only_durable_records_are_exported(tmp_path: Path) -> None:
    job, out = tmp_path / "news", tmp_path / "out"
    with DurableFrontier(job, delay=0) as frontier:
        frontier.add(SEEDS)
        visit_all(frontier)
        frontier.sync()
        lines = (job / "pages.jsonl").read_bytes().splitlines(keepends=True)
        write_live(job, Live({}, {}, len(b"".join(lines[:5])), None, []))
        assert main(["export", str(job), "--parquet", str(out)]) == 0
    assert [row["url"] for row in rows(out / "pages.parquet")] == [json.loads(line)["url"] for line in lines[:5]]
    assert json.loads((out / "export.json").read_text())["running"] is True


def test_a_directory_without_a_job_and_a_damaged_job(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = job.with_name("out")
    assert main(["export", str(job.with_name("nothing")), "--parquet", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    pages = job / "pages.jsonl"
    pages.write_bytes(pages.read_bytes().replace(b'{"url"', b'["url"', 1))
    assert main(["export", str(job), "--parquet", str(out)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"crawler: error: {pages}: offset 0: not a record; run `crawler verify {job}`\n"
    assert not out.exists()
    assert list(job.parent.glob(".*")) == []


def test_the_last_record_of_each_url(job: Path) -> None:
    """As the page of the format says."""
    out = job.with_name("out")
    assert main(["export", str(job), "--parquet", str(out)]) == 0
    (query,) = re.findall(r"^```sql\n(.*?)^```$", page("format-parquet.md"), re.MULTILINE | re.DOTALL)
    found = duckdb.sql(f"SELECT url, visit FROM ({query.replace('OUT', str(out))}) ORDER BY record").fetchall()
    assert len(found) == len(SEEDS) + 2
    assert found[-1] == (SEEDS[0], 2)
    assert [visit for _, visit in found[:-1]] == [1] * (len(found) - 1)


def test_structured_data_and_the_language_of_texts_are_exported(tmp_path: Path) -> None:
    words = "<p>The geese fly to the north every spring, and they come back with their young in the autumn of the year."
    head = '<link rel=canonical href=/><meta property=og:title content="\N{SNOWMAN}"><meta name=author content=Ann>'
    with Site({"/": f"{head}<script type='application/ld+json'>[[1.5],</script>{words * 5}"}) as site:
        ran = crawler(site.url("/"), "--job", tmp_path / "job", "--allow-private", "--output", "text,structured")
    assert ran.code == 0, ran.err
    out = tmp_path / "out"
    assert main(["verify", str(tmp_path / "job")]) == 0
    assert main(["export", str(tmp_path / "job"), "--parquet", str(out)]) == 0
    (row,) = rows(out / "structured.parquet")
    assert (row["canonical"], row["author"]) == (site.url("/"), ["Ann"])
    assert json.loads(row["opengraph"]) == {"title": "\N{SNOWMAN}"}
    assert [each["text"] for each in json.loads(row["json_ld_errors"])] == ["[[1.5],"]
    assert (row["json_ld"], row["cut"], row[OTHER]) == (None, False, None)
    assert [rows(out / f"{table}.parquet")[0]["detected_language"] for table in ("pages", "text")] == ["en", "en"]
    assert json.loads((out / "export.json").read_text())["pages_without_structured"] == 0


# -- links -----------------------------------------------------------------------------------------------------


@pytest.fixture
def linking(tmp_path: Path) -> Path:
    """A job that kept links."""
    return linking_job(tmp_path / "job")


def test_the_links_of_each_record_are_exported(linking: Path) -> None:
    out = linking.with_name("out")
    with open(linking / "links" / "links-000001.jsonl", "ab") as stream:
        stream.write(b'{"from":"http://h.test/"')  # of a page that was not finished
    assert main(["export", str(linking), "--parquet", str(out)]) == 0
    pages = {row["record"]: row for row in rows(out / "pages.parquet")}
    found = rows(out / "links.parquet")
    edges = edges_of_first(linking, len(pages))
    assert len(found) == len(edges) > 20
    for row, edge in zip(found, edges, strict=True):
        assert row.pop("record") in pages
        assert {name: value for name, value in row.items() if value is not None} == edge
    assert [pages[row["record"]]["url"] for row in rows(out / "links.parquet")] == [edge["from"] for edge in edges]
    first = next(page for page in pages.values() if page["kept"])
    line = (linking / "pages.jsonl").read_bytes().splitlines()[first["record"] - 1]
    assert dict(first["kept"]) == json.loads(line)["kept"]
    assert {page[OTHER] for page in pages.values()} == {None}
    assert json.loads((out / "export.json").read_text())["rows"]["links"] == len(edges)


def edges_of_first(job: Path, records: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    data = (job / "links" / "links-000001.jsonl").read_bytes()
    for line in (job / "pages.jsonl").read_bytes().splitlines()[:records]:
        if "kept" in (record := json.loads(line)):
            _, offset, length, _ = record["kept"]["links"]
            found += map(json.loads, data[offset : offset + length].splitlines())
    return found


def test_links_that_are_damaged_and_those_that_were_moved_away(
    linking: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = linking.with_name("out"), linking / "links" / "links-000001.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"to"', b'"TO"', 1))
    assert main(["export", str(linking), "--parquet", str(out)]) == 1
    assert re.search(r"links-000001.jsonl: offset 0: not the kept part of a page", capsys.readouterr().err)
    file.unlink()
    assert main(["export", str(linking), "--parquet", str(out)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"0 links.*\n\d+ pages without links: the files are not in the job", said)
    assert json.loads((out / "export.json").read_text())["pages_without_links"] > 0


# -- values and columns ----------------------------------------------------------------------------------------

ROW: dict[str, Any] = {
    "text": "\N{SNOWMAN}",
    "truth": True,
    "small": 2**31 - 1,
    "large": -(2**63),
    "number": 3,
    "time": "2026-11-22T02:11:55.238Z",
    "texts": ["a", "b"],
    "headers": {"etag": '"1"'},
    "counts": {"timeout": 2},
    "places": {"links": [1, 0, 391, 2**32 - 1]},
    "json": {"price": 3, "tags": ["a", None]},
}
EACH = tuple(Column(kind.name.lower(), kind) for kind in Kind)


def test_every_kind_has_its_type() -> None:
    fit = columns_of(EACH, [dict(ROW)])
    assert fit[OTHER] == [None]
    table = pa.table({name: pa.array(fit[name], arrow_schema(EACH).field(name).type) for name in fit})
    assert table.schema == arrow_schema(EACH)
    (row,) = table.to_pylist()
    assert row["time"] == datetime(2026, 11, 22, 2, 11, 55, 238_000, UTC)
    assert {name: row[name] for name in ("text", "truth", "small", "large", "number", "texts")} == {
        name: ROW[name] for name in ("text", "truth", "small", "large", "number", "texts")
    }
    assert dict(row["places"]) == ROW["places"]
    assert json.loads(row["json"]) == ROW["json"]
    assert (row["headers"], row["counts"]) == ([("etag", '"1"')], [("timeout", 2)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from([*ROW, "unknown"]), JSON), max_size=5))
def test_whatever_a_record_holds_nothing_is_lost(found: list[dict[str, Any]]) -> None:
    """JSON of a later version, or of a record that others edited."""
    found = json.loads(json.dumps(found))
    columns = columns_of(EACH, [dict(row) for row in found])
    schema = arrow_schema(EACH)
    pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema})
    for place, row in enumerate(found):
        other = json.loads(columns[OTHER][place] or "{}")
        for name, value in row.items():
            stored = columns[name][place] if name in columns else None
            if value is None and name in columns:
                assert stored is None
            elif stored is None:
                assert other.pop(name) == value
            elif name == "json":
                assert json.loads(stored) == value
            elif name in ("headers", "counts", "places"):
                assert dict(stored) == value
            elif name != "time":
                assert stored == value
        assert other == {name: None for name, value in row.items() if name == "unknown" and value is None} or not other


@pytest.mark.parametrize("table", TABLES)
def test_the_page_of_the_format_has_every_column(table: str) -> None:
    text = page("format-parquet.md").partition(f"## {table}.parquet\n")[2].partition("\n## ")[0]
    said = re.findall(r"^    (\w+) +(\S.*?)(?:  +(.*))?$", text, re.MULTILINE)
    columns = [*((column.name, column.kind.value) for column in TABLES[table]), (OTHER, Kind.TEXT.value)]
    assert [(name, kind) for name, kind, _ in said] == columns
    notes = {name: note for name, _, note in said}
    for column in TABLES[table]:
        if column.absent is not None:
            assert notes[column.name] == f"absent: {str(column.absent).lower()}"
