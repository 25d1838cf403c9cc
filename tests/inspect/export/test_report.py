"""``crawler report``: the figures of records, and the page that shows them."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from crawler.cli import main
from crawler.inspect.export.job_report import LastRecords, gather
from crawler.inspect.export.report_page import MARK
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.survey.survey import BROKEN_KINDS
from tests.inspect.export.hostile_report import HOSTILE, hostile_report


def record(path: str, status: int | None = 200, **more: Any) -> dict[str, Any]:
    return {
        "url": f"https://a.test{path}",
        "status": status,
        "error": None,
        "outcome": "fetched",
        "depth": 1,
        "via": "https://a.test/",
        "fetched_at": "2026-11-22T02:11:55.238Z",
        "content_type": "text/html",
        "bytes": 100,
        "links": 3,
        **more,
    }


def test_the_last_record_of_a_url_counts() -> None:
    found = [
        record("/a", 404),
        record("/b"),
        record("/held", None, outcome="excluded", rule="private-address"),
        record("/a", 200, visit=2),
        record("/held"),
        record("/forgotten\\", 200),
        record("/a", 304, visit=3),
        record("/forgotten\\", 404),
    ]
    last = LastRecords(json.dumps(each, separators=(",", ":")).encode() for each in found)
    numbered = [(each["url"][14:], each["status"], number, each) for number, each in enumerate(found, 1)]
    kept = [(path, status) for path, status, number, each in numbered if last.is_last(number, each)]
    assert kept == [("/b", 200), ("/held", 200), ("/a", 304), ("/forgotten\\", 404)]


# -- the page --------------------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """All elements of a page, with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


OWN = re.compile(
    "html|head|meta|title|style|body|header|h1|h2|p|nav|ul|li|a|main|section|dl|div|dt|dd|figure|figcaption|svg|g|rect|"
    "table|thead|tbody|tr|th|td|code|span|script"
)


def test_hostile_text_is_text() -> None:
    page = hostile_report()
    elements = Elements(page)
    assert [tag for tag, _ in elements.found if not OWN.fullmatch(tag)] == []
    attributes = {name for _, each in elements.found for name in each}
    assert not {name for name in attributes if name.startswith("on")} | attributes & {"src", "style", "srcset"}
    for text in HOSTILE[:6]:
        assert text in elements.text
    assert r"\u202elmth.\x00\x1b[2J\ud800" in elements.text
    for _, each in elements.found:
        href = each.get("href")
        assert href is None or re.fullmatch(r"#[a-z]+|https?://h\.test/[^<>\"' ]*", href), href
    page.encode("utf-8")


def test_the_page_permits_its_own_script_alone_and_loads_nothing() -> None:
    page = hostile_report()
    elements = Elements(page)
    (policy,) = (each["content"] for _, each in elements.found if each.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    (script,) = re.findall('<script type="module">(.*?)</script>', page, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert re.findall("script-src ([^;]*)", policy) == [f"'sha256-{digest}'"]
    assert [each for tag, each in elements.found if tag == "script"] == [
        {"type": "application/json", "id": "history"},
        {"type": "module"},
    ]
    (history,) = re.findall('id="history">(.*?)</script>', page, re.DOTALL)
    assert [event["text"] for event in json.loads(history)["events"]] == list(HOSTILE)
    assert not [each for tag, each in elements.found if tag in ("link", "img", "iframe", "use", "image")]


# -- the command -----------------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with DurableFrontier(tmp_path / "news", delay=0, scope="host") as frontier:
        frontier.add(["https://a.test/", "https://b.test/"])
        while (lease := frontier.take(now=1e10)) is not None:
            status = 404 if lease.url.endswith("gone") else 200
            frontier.finish(lease, ["/gone", "https://c.test/out"], status=status)
        frontier.visit_again(["https://a.test/gone"])
        lease = frontier.take(now=1e10)
        assert lease is not None
        frontier.finish(lease)
    return tmp_path / "news"


def test_the_report_of_a_job(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job)]) == 0
    page = Path("news-report.html").read_text("utf-8")
    said = capsys.readouterr().out
    assert re.fullmatch(rf"news-report.html: 4 URLs, 1 broken; {len(page.encode()):,} bytes\n", said)
    assert page.startswith(f"<!doctype html>\n{MARK}\n")
    text = Elements(page).text
    assert "Crawl of news" in text
    assert re.search(r"crawl\.scopelinks out of scope3", text)
    assert str(job) not in page
    survey = gather(job).survey
    assert survey.urls == 4
    assert sum(number for _, (number,) in survey.top["statuses"].items()) == 4
    assert survey.total(*BROKEN_KINDS) == 1
    hosts = [re.sub(r"<[^>]*>", " ", row).split()[:4] for row in re.findall(r"<tr>.*?</tr>", page) if ":443" in row]
    assert hosts == [["a.test:443", "2", "0", "0"], ["b.test:443", "2", "1", "0"]]
    broken = [re.sub(r"<[^>]*>", " ", row).split() for row in re.findall(r"<tr>.*?</tr>", page) if "/gone" in row]
    assert broken == [["https://b.test/gone", "on", "https://b.test/", "404"]], "its page is named"
    assert sorted(path.name for path in job.parent.iterdir()) == ["news", "news-report.html"]


def test_an_earlier_report_is_replaced_and_nothing_else(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = job.with_name("page.html")
    assert main(["report", str(job), "--out", str(out)]) == 0
    assert main(["report", str(job), "--out", str(out)]) == 0
    out.write_text("<!doctype html>\nmine\n")
    for place, said in {
        out: "is not an earlier export: use another file",
        job.parent: "is not a file: use another file",
        job / "page.html": "is in the job's directory",
        job.parent / "nowhere" / "page.html": "is not a directory: make it first",
    }.items():
        capsys.readouterr()
        assert main(["report", str(job), "--out", str(place)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert out.read_text() == "<!doctype html>\nmine\n"
    assert main(["report", str(job.parent / "nothing")]) == 2
