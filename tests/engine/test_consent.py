"""Pages that refuse what a crawl is for: their links are followed, and nothing of them is in any output."""

from __future__ import annotations

import gzip
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiohttp import web
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import OutputSettings, PurposeSettings, RecrawlSettings, RetrySettings
from crawler.cli import main
from crawler.engine.lifecycle import Stop
from crawler.job.metrics.catalogue import Counters
from crawler.job.output.changes import Change, change_of
from crawler.job.records import decode_counters
from crawler.job.recovery import COUNTERS
from crawler.job.store.rocks import RocksStore
from tests.engine.test_archiving import on_the_wire
from tests.engine.test_directives import answer, meta
from tests.engine.test_text_output import Slow
from tests.jobs import rows, verify
from tests.laboratory import SETTINGS, Laboratory, links
from tests.program import crawler
from tests.site import Site, linked

PAGES, FAN = 180, 9
SECRET = "hushed"  # only in pages that refuse
KILLS = tuple(range(1, 21))
OUTPUTS = "warc,links,text,bodies,structured,markdown"
ROBOTS = """User-agent: *
Content-Signal: /signal/ search=yes, ai-train=no
Content-Usage: train-ai=y
Allow: /
License: /rsl.xml
"""
FILES = {
    "/.well-known/tdmrep.json": '[{"location": "/mined/", "tdm-reservation": 1}]',
    "/rsl.xml": '<rsl><content url="/licensed/"><license><prohibits>all</prohibits></license></content></rsl>',
}
HEADERS = {
    "header": {"Content-Usage": "train-ai=n"},
    "tags": {"X-Robots-Tag": "noai, noarchive"},
    "reserved": {"tdm-reservation": "1"},
    "file": {"X-Robots-Tag": "crawler: noai"},
}
ELEMENTS = {"element": meta("robots", "noai"), "policy": meta("tdm-reservation", "1")}
KINDS = ("open", *HEADERS, *ELEMENTS, "signal", "mined", "licensed", "open")
MODULE = """
import os, signal

def log(page):
    with open("log", "a") as out:
        out.write(f"{page.url}\\n")
    kills = int(os.environ.get("KILL_AT", "0"))
    if kills and sum(1 for _ in open("log")) >= kills:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"size": len(page.body)}

def score(page):
    return log(page) and 1.0

def follows(link):
    with open("texts", "a") as out:
        out.write(f"{link.text}\\n")
    return True
"""


def path_of(number: int) -> str:
    return f"/{KINDS[number % len(KINDS)]}/{number}" if number else "/"


def is_refused(path: str) -> bool:
    return path != "/" and not path.startswith("/open/")


def page_of(number: int) -> Any:
    path = path_of(number)
    kind = path.split("/")[1]
    word = f"{SECRET}{number}" if is_refused(path) else "word"
    ways = linked(map(path_of, range(FAN * number + 1, min(FAN * number + FAN + 1, PAGES)))).replace(">x<", f">{word}<")
    data = f'<script type="application/ld+json">{{"@type":"Article","headline":"{word}"}}</script>'
    html = f"<html><title>{word}</title>{ELEMENTS.get(kind, '')}{data}{ways}<main><p>{word} {'and more ' * 40}</main>"

    async def respond(_: web.Request) -> web.Response:
        headers = {"X-Word": word, "ETag": f'"{word}"', **HEADERS.get(kind, {})}
        if kind == "file":
            return web.Response(text=word, content_type="text/plain", headers=headers)
        return web.Response(text=html, content_type="text/html", headers=headers)

    return respond


def children_of_files() -> set[str]:
    """What only a file links to, or a page that only such a page links to."""
    lost = set[int]()
    for number in range(1, PAGES):
        parent = (number - 1) // FAN
        if parent in lost or path_of(parent).startswith("/file/"):
            lost.add(number)
    return {path_of(number) for number in lost}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({path_of(number): page_of(number) for number in range(PAGES)} | FILES, robots=ROBOTS) as served:
        yield served


@pytest.fixture(scope="module")
def job(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl for training, which was killed again and again."""
    here = tmp_path_factory.mktemp("crawl")
    (here / "shop.py").write_text(MODULE)
    hooks = '[hooks]\non_page = "shop:log"\nfilter_link = "shop:follows"\n'
    (here / "crawl.toml").write_text(f'{hooks}[output]\nheaders = ["x-word"]\n')
    (here / "seeds").write_text(site.url("/"))
    flags = ("--allow-private", "--delay", "0", "--per-host", "4", "--capacity", "4096", "--job", "job")
    more = ("--config", "crawl.toml", "--purpose", "ai-train", "--output", OUTPUTS)
    for kill_at in (*KILLS, 0):
        ran = crawler("crawl", "seeds", *flags, *more, directory=here, env={"KILL_AT": str(kill_at)})
        assert ran.code == (-signal.SIGKILL if kill_at else 0), ran.err
    assert verify(here / "job").code == 0
    return here / "job"


def expected() -> set[str]:
    return {path_of(number) for number in range(PAGES)} - children_of_files()


def test_every_page_is_read_and_those_that_refuse_are_excluded(job: Path, site: Site) -> None:
    found = {row["url"].removeprefix(site.url("")): row for row in rows(job)}
    assert found.keys() == expected()
    assert [site.count(path) for path in FILES] == [1, 1]
    assert Counter(row["url"] for row in rows(job)).most_common(1)[0][1] == 1
    for path, row in found.items():
        said = {"ai-train": "no"} if is_refused(path) else {"ai-train": "yes"}
        assert said.items() <= row["consent"].items()
        if is_refused(path):
            assert (row["outcome"], row["rule"], row["status"]) == ("excluded", "consent", 200)
            assert not {"title", "digest", "etag", "headers", "kept", "body", "data", "id"} & row.keys()
        else:
            assert (row["outcome"], row["title"]) == ("fetched", "word")
            assert row["data"] == {"size": row["bytes"]}


def test_no_file_and_no_row_of_the_job_has_a_word_of_them(job: Path) -> None:
    for path in job.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert SECRET.encode() not in data, path
            if path.suffix == ".gz":
                assert SECRET.encode() not in gzip.decompress(data), path
    store = RocksStore(job / "store")
    try:
        for family in Family:
            for key, value in store.rows(family, b"", None):
                assert SECRET.encode() not in key + value, family
    finally:
        store.close()
    assert b"word" in b"".join(gzip.decompress(path.read_bytes()) for path in (job / "warc").iterdir())
    assert list((job / "bodies").rglob("*"))
    assert b"word" in (job / "text" / "text-000001.jsonl").read_bytes()


def test_code_of_the_user_is_not_given_them(job: Path, site: Site) -> None:
    seen = {url.removeprefix(site.url("")) for url in (job.parent / "log").read_text().split()}
    assert seen == {path for path in expected() if not is_refused(path)}
    assert set((job.parent / "texts").read_text().split("\n")) == {"word", ""}


def test_exports_have_nothing_of_them(job: Path, tmp_path: Path) -> None:
    for form in ("parquet", "csv", "markdown", "cdxj", "wacz"):
        assert main(["export", str(job), f"--{form}", str(tmp_path / f"out.{form}")]) == 0
    kept = expected() - {path for path in expected() if is_refused(path)}
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix == ".parquet":
            assert SECRET not in str(pq.read_table(path).to_pylist())
        elif path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    assert len(pq.read_table(tmp_path / "out.parquet" / "text.parquet")) == len(kept)
    assert len(list((tmp_path / "out.markdown").rglob("*.md"))) == len(kept)


# -- what later visits and later runs say -------------------------------------------------------------------------

A = "http://a.test/"
FOR_TRAINING = replace(SETTINGS, purpose=PurposeSettings(("ai-train",)), output=OutputSettings(("text", "warc")))
DAILY = RecrawlSettings(True, min_interval=60.0, mean_interval=60.0, max_interval=60.0)
NOAI = meta("robots", "noai")


def by_url(lab: Laboratory) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for record in lab.records():
        found.setdefault(record["url"], []).append(record)
    return found


def counters(lab: Laboratory) -> Counters:
    stored = lab.store.get(Family.META, COUNTERS)
    assert stored is not None
    return decode_counters(stored)


def test_nofollow_still_holds_for_a_page_that_is_dropped(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {A: meta("robots", "noai, nofollow") + links([f"{A}b"]), f"{A}b": "b"}, FOR_TRAINING)
    assert lab.run(A) is Stop.FINISHED
    assert list(by_url(lab)) == [A]


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_errors_keep_their_outcome(tmp_path: Path, status: int) -> None:
    page = answer("none", ("X-Robots-Tag", "noai"), ("ETag", '"1"'), status=status)
    lab = Laboratory(tmp_path, {A: page}, replace(FOR_TRAINING, retry=RetrySettings(tries=1)))
    lab.run(A)
    (record,) = lab.records()
    assert (record["outcome"], record["status"], record["consent"]["ai-train"]) == ("fetched", status, "no")
    assert not {"kept", "etag"} & record.keys()


@pytest.mark.parametrize("status", [404, 403, 503])
def test_the_html_of_an_error_is_not_kept_because_its_elements_are_not_read(tmp_path: Path, status: int) -> None:
    page = on_the_wire(answer(NOAI + SECRET, status=status))
    for purpose, kept in ((FOR_TRAINING.purpose, False), (PurposeSettings(), True)):
        settings = replace(FOR_TRAINING, purpose=purpose, retry=RetrySettings(tries=1))
        lab = Laboratory(tmp_path / str(kept), {A: page}, settings)
        lab.run(A)
        (record,) = lab.records()
        assert (record["outcome"], record["status"], "kept" in record) == ("fetched", status, kept)


@pytest.mark.parametrize(("unstated", "outcome", "counted"), [("allow", "fetched", 1), ("refuse", "excluded", 0)])
def test_what_holds_where_nothing_is_stated(tmp_path: Path, unstated: str, outcome: str, counted: int) -> None:
    purpose = PurposeSettings(("ai-train", "search"), unstated)
    pages = {A: answer(links([f"{A}b"]), ("Content-Usage", "train-ai=y, search=y")), f"{A}b": "b"}
    lab = Laboratory(tmp_path, pages, replace(SETTINGS, purpose=purpose))
    lab.run(A)
    assert {url: record["outcome"] for url, (record,) in by_url(lab).items()} == {A: "fetched", f"{A}b": outcome}
    assert counters(lab).pages_unstated == counted


def test_without_a_purpose_nothing_is_dropped(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {A: NOAI, f"{A}robots.txt": "x"}, SETTINGS)
    lab.run(A)
    (record,) = lab.records()
    assert (record["outcome"], record["consent"]) == ("fetched", {"ai-input": "no", "ai-train": "no"})


def test_a_later_visit_decides_from_then_on(tmp_path: Path) -> None:
    pages = {A: f"<p>{'one ' * 100}"}
    lab = Laboratory(tmp_path, pages, replace(FOR_TRAINING, recrawl=DAILY), texts=Slow())
    lab.run(A, max_time=30)
    lab.pages[A] = NOAI + f"<p>{'two ' * 100}"
    lab.run(max_time=60)
    lab.pages[A] = f"<p>{'three ' * 100}"
    lab.run(max_time=60)
    told = [(record["outcome"], change_of(record)) for record in lab.records()]
    assert told == [("fetched", Change.INSERT), ("excluded", Change.DELETE), ("fetched", Change.UPDATE)]
    texts = [json.loads(line) for line in (tmp_path / "text" / "text-000001.jsonl").read_text().splitlines()]
    assert [row.get("gone", False) for row in texts] == [False, True, False]


def test_a_page_that_is_gone_and_refuses_loses_its_text(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {A: f"<p>{'one ' * 100}"}, replace(FOR_TRAINING, recrawl=DAILY), texts=Slow())
    lab.run(A, max_time=30)
    lab.pages[A] = answer("gone", ("X-Robots-Tag", "noai"), status=404)
    lab.run(max_time=60)
    texts = [json.loads(line) for line in (tmp_path / "text" / "text-000001.jsonl").read_text().splitlines()]
    assert [row.get("gone", False) for row in texts] == [False, True]


def test_an_answer_304_need_not_state_again_what_the_page_did(tmp_path: Path) -> None:
    strict = replace(SETTINGS, purpose=PurposeSettings(("ai-train",), "refuse"), recrawl=DAILY)
    states, kept = ("Content-Usage", "train-ai=y"), ("ETag", '"1"')
    lab = Laboratory(tmp_path, {A: answer("a", states, kept)}, strict)
    lab.run(A, max_time=30)
    lab.pages[A] = answer(None, kept, status=304)
    lab.run(max_time=60)
    assert [(record["outcome"], record["status"]) for record in lab.records()] == [("fetched", 200), ("fetched", 304)]


def test_a_run_that_lifts_two_limits_visits_a_page_once_more(tmp_path: Path) -> None:
    pages = {A: NOAI + links([f"{A}b"]), f"{A}b": "b"}
    lab = Laboratory(tmp_path, pages, replace(FOR_TRAINING, crawl=replace(SETTINGS.crawl, max_depth=0)), texts=Slow())
    lab.run(A)
    lab.settings = SETTINGS
    lab.run()
    lab.run()
    assert {url: len(records) for url, records in by_url(lab).items()} == {A: 2, f"{A}b": 1}
    assert (counters(lab).pending, counters(lab).urls[-1]) == (0, 0)


def test_a_seed_that_refuses_has_not_failed(tmp_path: Path) -> None:
    with Site({"/": NOAI + linked(["/b"]), "/b": "b"}) as site:
        flags = ("--allow-private", "--delay", "0", "--capacity", "4096", "--purpose", "ai-train")
        assert crawler(site.url("/"), "--job", tmp_path / "job", *flags).code == 0


def test_a_run_for_another_purpose_fetches_what_was_dropped(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {A: NOAI + links([f"{A}b"]), f"{A}b": meta("robots", "noindex")}, FOR_TRAINING)
    lab.run(A)
    lab.settings = replace(FOR_TRAINING, purpose=PurposeSettings(("search",)))
    lab.run()
    last = {url: (len(records), records[-1]["outcome"]) for url, records in by_url(lab).items()}
    assert last == {A: (2, "fetched"), f"{A}b": (1, "fetched")}
