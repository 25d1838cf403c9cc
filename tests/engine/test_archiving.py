"""The web archive of a crawl: each exchange is in it once, what has been archived already is referred to, and exports
hold what is durable."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from crawler.base.kv import Family
from crawler.base.settings.parts import OutputSettings, PurposeSettings, RecrawlSettings, RobotsSettings, Settings
from crawler.cli import main
from crawler.engine.lifecycle import Stop
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.web.fetch import RawExchange, Response, Truncation
from tests.driving import Driven
from tests.durability.power import SETTINGS, Inline
from tests.faulty_store import FaultyStore
from tests.jobs import change, repair, verify
from tests.outputs import files_of, records
from tests.simulated_web import Answers, SimulatedWeb, page, redirect
from tests.virtual import run_virtually
from tests.web.archive.exchanges import bodies, fast_bodies

KEEPING = replace(SETTINGS, output=OutputSettings(("warc",), 4_000))
WITH_ROBOTS = replace(KEEPING, robots=RobotsSettings())
QUICK = RecrawlSettings(True, mean_interval=1.0, min_interval=0.5, max_interval=1.0)
SEED = "http://h.test/"


def on_the_wire(answer: Response, truncated: Truncation | None = None) -> Response:
    """The answer with what an archive keeps of it."""
    lines = [f"HTTP/1.1 {answer.status} Status", *[f"{name}: {value}" for name, value in answer.headers.items()]]
    if answer.content_type is not None:
        lines.append(f"Content-Type: {answer.content_type}")
    head = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode("ascii")
    request = b"GET / HTTP/1.1\r\nHost: h.test\r\n\r\n"
    raw = RawExchange(request, head, answer.body or b"", truncated, chunked=True, address="192.0.2.1")
    return replace(answer, raw=raw)


def linked(count: int) -> dict[str, Response]:
    """A site whose first page links to all others."""
    urls = [f"{SEED}{number}" for number in range(count)]
    links = "".join(f'<a href="{url}">{url}</a>' for url in urls)
    web = {
        SEED: page(links),
        **{url: page(f"<title>{url}</title>" + "words " * number) for number, url in enumerate(urls)},
    }
    return {url: on_the_wire(answer) for url, answer in web.items()}


class Crawl:
    """One job, crawled again and again; ``store`` keeps it in memory instead of on the disk."""

    def __init__(self, directory: Path, settings: Settings = KEEPING, store: FaultyStore | None = None) -> None:
        self.job = directory / "job"
        self.settings = settings
        self.store = store
        self.now = 1_700_000_000.0

    def run(self, web: Mapping[str, Response], *, checkpoint: bool = True) -> SimulatedWeb:
        simulated = SimulatedWeb(web)
        run_virtually(self._run(simulated, checkpoint))
        return simulated

    async def _run(self, simulated: SimulatedWeb, checkpoint: bool, end: Stop = Stop.FINISHED) -> None:
        store = self.store
        platform = Platform(executor=Inline)
        if store is not None:
            platform = replace(platform, open_store=lambda _: store)
        with closing(Job(self.job, self.settings, self.now, platform)) as job:
            assert await Driven(job, simulated, self.settings, self._clock, seeds()).to_the_end() is end
            if checkpoint:
                await job.checkpoint(self.now)

    def visit_again(self, web: Mapping[str, Answers], seconds: float) -> None:
        """Visit pages again and again for that long, by the clock of the loop."""
        crawl = replace(self.settings.crawl, max_time=seconds)
        self.settings = replace(self.settings, crawl=crawl, recrawl=QUICK)
        begin = self.now

        def clock() -> float:
            self.now = begin + asyncio.get_running_loop().time()
            return self.now

        self._clock = clock  # type: ignore[method-assign]
        run_virtually(self._run(SimulatedWeb(web), False, Stop.MAX_TIME))

    def _clock(self) -> float:
        self.now += 0.001
        return self.now

    def archive(self) -> bytes:
        return b"".join(files_of(self.job, "warc").values())


async def seeds() -> AsyncIterator[list[str]]:
    yield [SEED]


def named(data: bytes) -> list[dict[str, str]]:
    return [dict(each.rec_headers.headers) for each in ArchiveIterator(io.BytesIO(data))]


def of_kind(data: bytes, kind: str) -> list[dict[str, str]]:
    return [each for each in named(data) if each["WARC-Type"] == kind]


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path, store=FaultyStore())


@pytest.fixture
def stored(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path)


def test_each_exchange_is_archived_once(crawl: Crawl) -> None:
    web = linked(12) | {
        f"{SEED}3": on_the_wire(redirect("/moved")),
        f"{SEED}moved": on_the_wire(page("<p>gone", status=404)),
    }
    crawl.run(web)
    assert len(files_of(crawl.job, "warc")) > 1
    for number, data in files_of(crawl.job, "warc").items():
        (info,) = of_kind(data, "warcinfo")
        assert info["WARC-Filename"] == f"crawl-{number:06}.warc.gz"
        assert named(data)[0] == info
        assert fast_bodies(data) == bodies(data)
    data = crawl.archive()
    responses = of_kind(data, "response")
    assert sorted(each["WARC-Target-URI"] for each in responses) == sorted(web)
    found = [body for kind, body in bodies(data) if kind == "response"]
    for each, body in zip(responses, found, strict=True):
        raw = web[each["WARC-Target-URI"]].raw
        assert raw is not None
        assert body == raw.body
    assert len({each["WARC-Record-ID"] for each in named(data)}) == len(named(data))
    for kind in ("request", "metadata"):
        assert len(of_kind(data, kind)) == len(web)


def test_a_record_says_where_its_exchange_is(crawl: Crawl) -> None:
    web = linked(5)
    crawl.run(web)
    files = files_of(crawl.job, "warc")
    for record in records(crawl.job):
        number, start, length, _ = record["kept"]["warc"]
        part = files[number][start : start + length]
        assert {each["WARC-Target-URI"] for each in named(part) if each["WARC-Type"] != "warcinfo"} == {record["url"]}


def test_what_the_crawl_knows_of_a_url_is_beside_it(crawl: Crawl) -> None:
    crawl.run(linked(1))
    metadata = [body for kind, body in bodies(crawl.archive()) if kind == "metadata"]
    assert metadata == [
        b"fetchTimeMs: 0\r\ndepth: 0\r\noutcome: fetched\r\n",
        b"via: http://h.test/\r\nfetchTimeMs: 0\r\ndepth: 1\r\noutcome: fetched\r\n",
    ]


def test_the_same_payload_is_archived_once(crawl: Crawl) -> None:
    same = page("<p>the same words")
    web = linked(4) | {f"{SEED}{number}": on_the_wire(same) for number in range(4)}
    crawl.settings = replace(KEEPING, crawl=replace(KEEPING.crawl, concurrency=1))
    crawl.run(web)
    data = crawl.archive()
    first = next(each for each in of_kind(data, "response") if each["WARC-Target-URI"] != SEED)
    revisits = of_kind(data, "revisit")
    assert len(revisits) == 3
    for each in revisits:
        assert each["WARC-Refers-To-Target-URI"] == first["WARC-Target-URI"]
        assert each["WARC-Refers-To-Date"] == first["WARC-Date"]
        assert each["WARC-Payload-Digest"] == first["WARC-Payload-Digest"]
    assert fast_bodies(data) == bodies(data)


def asked_with(answer: Response, *headers: str) -> Response:
    """The answer to a request with these headers."""
    assert answer.raw is not None
    request = "\r\n".join(["GET / HTTP/1.1", "Host: h.test", *headers, "", ""]).encode("ascii")
    return replace(answer, raw=replace(answer.raw, request=request))


def still_valid(web: Mapping[str, Response]) -> dict[str, Answers]:
    """A web whose pages are asked with their ``ETag`` again; the answer 304 has another ``Last-Modified``."""

    def answers(whole: Response) -> Callable[[Mapping[str, str]], Response]:
        def answer(headers: Mapping[str, str]) -> Response:
            if "If-None-Match" not in headers:
                return whole
            said = [f"{name}: {value}" for name, value in headers.items()]
            answer = Response(304, {"Last-Modified": "Tue"}, None, None, b"", None, None, 0.0, 0)
            return asked_with(on_the_wire(answer), *said)

        return answer

    return {url: answers(page) for url, page in web.items()}


def with_etag(html: str) -> Response:
    return on_the_wire(replace(page(html), headers={"ETag": '"1"'}))


def test_a_page_that_has_not_changed_refers_to_its_capture(crawl: Crawl) -> None:
    """Also where its answers change what it is asked with, and where the capture has the payload of another URL."""
    first = with_etag(f'<p>same <a href="{SEED}0">')
    crawl.settings = replace(KEEPING, crawl=replace(KEEPING.crawl, concurrency=1))
    crawl.visit_again(still_valid({SEED: first, f"{SEED}0": first}), 5.0)
    data = crawl.archive()
    (original,) = (each for each in of_kind(data, "response"))
    unchanged = [each for each in of_kind(data, "revisit") if each["WARC-Profile"].endswith("/server-not-modified")]
    assert {each["WARC-Target-URI"] for each in unchanged} == {SEED, f"{SEED}0"}
    assert len(unchanged) >= 6  # several of each
    for each in unchanged:
        assert each["WARC-Refers-To-Target-URI"] == original["WARC-Target-URI"] == SEED
        assert each["WARC-Refers-To-Date"] == original["WARC-Date"]
    assert fast_bodies(data) == bodies(data)


def test_the_redirects_of_robots_txt_are_archived(tmp_path: Path) -> None:
    """Also one to another host, whose answer is that of its own robots.txt later."""
    crawl = Crawl(tmp_path, WITH_ROBOTS, FaultyStore())
    rules = Response(200, {}, "text/plain", None, b"User-agent: *\nDisallow: /3\n", None, None, 0.0, 27)
    elsewhere = "http://other.test/rules"
    hops = {
        f"{SEED}robots.txt": on_the_wire(redirect(f"{SEED}moved")),
        f"{SEED}moved": on_the_wire(redirect(elsewhere)),
        elsewhere: on_the_wire(rules),
    }
    web = linked(5) | hops
    crawl.run(web)
    data = crawl.archive()
    archived = [each["WARC-Target-URI"] for each in of_kind(data, "response")]
    assert archived[:3] == [*hops]
    assert sorted(archived) == sorted(set(web) - {f"{SEED}3"})
    dates = [each["WARC-Date"] for each in of_kind(data, "response")]
    assert dates == sorted(dates)
    assert fast_bodies(data) == bodies(data)


def test_the_terms_of_a_host_are_archived(tmp_path: Path) -> None:
    terms = Response(200, {}, "application/json", None, b'[{"location":"/","tdm-reservation":0}]', None, None, 0.0, 38)
    web = linked(3) | {f"{SEED}.well-known/tdmrep.json": on_the_wire(terms)}
    crawl = Crawl(tmp_path, replace(WITH_ROBOTS, purpose=PurposeSettings(("ai-train",))), FaultyStore())
    crawl.run(web)
    archived = [each["WARC-Target-URI"] for each in of_kind(crawl.archive(), "response")]
    assert sorted(archived) == sorted(web)


@pytest.mark.parametrize("cut", [1, 2_600])
def test_a_lost_capture_is_nothing_that_others_refer_to(tmp_path: Path, cut: int) -> None:
    """Where the archive lost its end, what was lost is fetched and archived again."""
    web = linked(8) | {f"{SEED}{number}": on_the_wire(page("<p>the same words")) for number in range(3, 8)}
    one = replace(KEEPING.crawl, concurrency=1)
    crawl = Crawl(tmp_path, replace(KEEPING, output=OutputSettings(("warc",)), crawl=one), FaultyStore())
    crawl.run(web, checkpoint=False)
    path = crawl.job / "warc" / "crawl-000001.warc.gz"
    os.truncate(path, path.stat().st_size - cut)
    assert len(crawl.run(web).asked) < len(web)
    data = crawl.archive()
    answers = [each for each in named(data) if each["WARC-Type"] in ("response", "revisit")]
    assert sorted(each["WARC-Target-URI"] for each in answers) == sorted(web)
    captured = {(each["WARC-Target-URI"], each["WARC-Date"]) for each in of_kind(data, "response")}
    assert len(of_kind(data, "revisit")) == 4
    for each in of_kind(data, "revisit"):
        assert (each["WARC-Refers-To-Target-URI"], each["WARC-Refers-To-Date"]) in captured
    assert len(of_kind(data, "warcinfo")) == 1


def test_the_index_of_a_job(stored: Crawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    web = linked(12)
    stored.run(web)
    number = max(files_of(stored.job, "warc"))
    with open(stored.job / "warc" / f"crawl-{number:06}.warc.gz", "ab") as last:
        last.write(b"not final yet")
    out = tmp_path / "index.cdxj"
    assert main(["export", str(stored.job), "--cdxj", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    lines = out.read_bytes().splitlines()
    assert lines == sorted(lines)
    rows = [json.loads(line.split(b" ", 2)[2]) for line in lines]
    assert sorted(row["url"] for row in rows) == sorted(web)
    for row in rows:
        data = (stored.job / "warc" / row["filename"]).read_bytes()
        start = int(row["offset"])
        (found,) = named(data[start : start + int(row["length"])])
        assert (found["WARC-Target-URI"], found["WARC-Payload-Digest"]) == (row["url"], row["digest"])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_payload_row_is_found_and_all_are_forgotten(stored: Crawl) -> None:
    stored.run(linked(3))
    assert verify(stored.job).code == 0
    change(stored.job, Family.PAYLOADS, lambda found: (found[0][0], b"not a row"))
    assert verify(stored.job).kinds == {"row-damaged"}
    assert repair(stored.job).code == 0
    assert verify(stored.job).code == 0
