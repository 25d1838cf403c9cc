"""A crawl whose workers have two directories, as on two machines, looked at through what they meet at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from crawler import __version__
from crawler.base.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import CRAWL, CarrierError
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.job.crawl_file import encode_crawl, read_crawl_file
from crawler.job.job_lock import JobLock
from crawler.job.live_status import Live, write_live
from crawler.job.partition.part_report import PartReport, encode_report
from crawler.service.carrier_reports import REPORT
from crawler.service.crawl_progress import CrawlProgress
from crawler.service.engine_crawl import EngineCrawl
from crawler.service.engine_source import EngineSource
from crawler.service.file_source import CrawlSource
from crawler.service.source import only_statistics
from crawler.service.view_errors import Unavailable
from tests.asked import enters, opened
from tests.base.carrier.redis_server import RedisServer, redis_server
from tests.cluster.chain import HOSTS, Chain
from tests.job.metrics.samples import statistics
from tests.partitioned.crawls import begin
from tests.program import Ran, crawler, running, wait_until

PASSWORD = {"CRAWLER_ENGINE_PASSWORD": "s3cret"}
WORDS = ("--scope", "any", "--allow-private", "--ignore-robots", "--delay", "0", "--partition-count", "4", "--quiet")


def at(server: RedisServer, name: str = "news") -> tuple[str, ...]:
    return "--engine", server.url, "--crawl", name


def told(server: RedisServer, command: str, *words: str) -> Any:
    ran = crawler(command, *words, *at(server), "--json", env=PASSWORD)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def is_one_line(ran: Ran) -> bool:
    return (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "") and "s3cret" not in ran.err


def client_of(server: RedisServer) -> redis.Redis:
    return redis.Redis(port=server.port, password="s3cret", protocol=2)


@contextmanager
def in_two_places(server: RedisServer, chain: Chain, home: Path) -> Iterator[None]:
    """A crawl in a store that lasts, and has a worker with each of two directories."""
    common = (*at(server), "--workers", "2", "--store", f"file:{home / 'store'}")
    with running(*chain.seeds, "--job", home / "one", *WORDS, *common) as first, client_of(server) as client:
        wait_until(lambda: bool(client.hexists("crawler:{news:crawl}:values", "settings")), "the crawl is known")
        with running("work", "--dir", home / "two", *common[-2:], "--quiet") as second:
            processes = (first, second)
            is_over = lambda: any(process.poll() is not None for process in processes)  # noqa: E731
            wait_until(lambda: len(chain.asked) > 30 or is_over(), "pages are asked for")
            assert not is_over()
            try:
                yield
            finally:
                for process in processes:
                    process.send_signal(signal.SIGINT)
                for process in processes:
                    process.communicate()


def test_a_crawl_in_two_places_is_shown_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*next(iter(PASSWORD.items())))
    with (
        redis_server(tmp_path / "server", "appendonly no", "requirepass s3cret") as server,
        Chain(12, 4_000, 0.05) as chain,
    ):
        with in_two_places(server, chain, tmp_path):
            stats = _all_told(server)
            places = {part["partition"]: part["directory"] for part in stats["partitions"]}
            assert set(places.values()) == {str(tmp_path / "one"), str(tmp_path / "two")}
            assert {part["machine"] for part in stats["partitions"]} == {socket.gethostname()}
            assert stats["state"] == "running"
            assert stats["pages_fetched"] == sum(part["pages_fetched"] for part in stats["partitions"]) > 0
            slots = json.loads((tmp_path / "one/partitions/00/live.json").read_bytes())["stats"]["slots"]["total"]
            assert stats["slots"]["total"] == 2 * slots, "each worker has its own, also on one machine"
            _check_views(server, places)
            store = f"file:{tmp_path / 'store'}"
            found = json.loads(crawler("hosts", store, "--json").out)
            assert found["total"] == HOSTS, "hosts and URLs of all machines are read from the store"
            explained = json.loads(crawler("explain", store, chain.seeds[0], "--json").out)
            assert explained["partition"]["begun"]
            assert explained["record"]["status"] == 200
        ended = told(server, "stats")
        assert ended["state"] == "stopped"
        assert ended["urls_in_flight"] == 0
        fetched = Counter[str]()  # one that has moved at the end has fewer records where it was
        for path in tmp_path.glob("*/partitions/*/pages.jsonl"):
            fetched |= Counter({path.parent.name: path.read_bytes().count(b"\n")})
        assert ended["pages_fetched"] == fetched.total(), "the last reports are those of the end"


def _all_told(server: RedisServer) -> Any:
    stats: Any = {}

    def is_whole() -> bool:
        nonlocal stats
        stats = told(server, "stats")
        return all(part["state"] == "running" for part in stats["partitions"]) and stats["pages_fetched"] > 0

    wait_until(is_whole, "all partitions are told of")
    return stats


def _check_views(server: RedisServer, places: dict[int, str]) -> None:
    """What ``top`` and the page show."""
    with running("dashboard", *at(server)) as process:
        url = enters(process.stdout)

        def ask(path: str) -> Any:
            return json.loads(opened(f"{url}api/{path}").read())

        assert ask("stats")["partitions"][3]["directory"] == places[3]
        assert ask("job")["name"] == "news"
        assert b"crawler_pages_fetched_total" in opened(f"{url}metrics").read()
        files = (f"download/{name}" for name in ("records.jsonl", "records.csv", "hosts.csv", "report.html"))
        for path in ("survey", "hosts", "hosts/a.test:80", "explain?url=http://a.test/", "changes", *files):
            with pytest.raises(urllib.error.HTTPError, match="503") as refused:
                ask(path)
            assert json.load(refused.value)["error"] == str(only_statistics()), path
    shown = crawler("top", *at(server), env=PASSWORD)
    assert shown.code == 0, shown.err
    assert "hosts at work" in shown.out


def test_what_is_named_wrongly_is_said_in_one_line_and_changes_nothing(tmp_path: Path) -> None:
    with redis_server(tmp_path / "server", "appendonly no", "requirepass s3cret") as server:
        for words, about in (
            (at(server, "unknown"), "unknown"),
            (("--engine", server.url), "--crawl"),
            (("--crawl", "news"), "--engine"),
            (("--engine", "http://127.0.0.1", "--crawl", "news"), "redis://HOST:PORT"),
            (("--engine", server.url.replace("//", "//me:s3cret@"), "--crawl", "news"), "CRAWLER_ENGINE_PASSWORD"),
        ):
            named = words if "--engine" in words else (str(tmp_path), *words)
            ran = crawler("stats", *named, env=PASSWORD)
            assert is_one_line(ran), ran.err
            assert about in ran.err
        assert is_one_line(crawler("top", *at(server)))
        assert is_one_line(crawler("dashboard", *at(server), "--listen", "0.0.0.0:0", env=PASSWORD))
        with client_of(server) as client:
            assert client.keys("*") == []
    gone = crawler("stats", *at(server), env=PASSWORD)
    assert is_one_line(gone), gone.err


class Times:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def wall(self) -> float:
        return self.now

    def steady(self) -> float:
        return self.now - 1_000_000.0


class Interrupted(MemoryCarrier):
    """A carrier that does not answer for as long as ``fault`` is set, or only after ``delay`` seconds."""

    def __init__(self, times: Times) -> None:
        super().__init__(Holdings())
        self.times, self.fault, self.delay = times, False, 0.0

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        self.times.now += self.delay
        if self.fault:
            raise CarrierError("no answer")
        return await super().get(names, key)


def report_of(number: int, at: float, *, last: bool = False) -> dict[str, bytes]:
    stats = statistics(state="ended" if last else "running", pages_fetched=10, urls_pending=5, urls_in_flight=2)
    report = PartReport(__version__, at, 5.0, last, f"m{number}", f"/d{number}", "home", 7, stats)
    return {REPORT: encode_report(report) or b""}


@pytest.mark.parametrize("apart", [0.0, 40.0, -40.0])
async def test_while_the_engine_does_not_answer_no_worker_is_taken_for_gone(tmp_path: Path, apart: float) -> None:
    begin(tmp_path / "crawl")
    times = Times()
    carrier = Interrupted(times)
    crawl = EngineCrawl(carrier, read_crawl_file(tmp_path / "crawl"), "here", times.wall, times.steady)
    for number in range(2):
        await carrier.put(f"p{number}", report_of(number, times.now + apart))
    await crawl.look()

    def states() -> list[str]:
        return [part["state"] for part in crawl.stats(times.now)["partitions"][:2]]

    for carrier.delay, carrier.fault in ((10.0, True), (10.0, True), (10.0, False), (30.0, False)):
        with contextlib.suppress(CarrierError):
            await crawl.look()
        assert states() == ["running", "running"], "the workers could not report either"
        if carrier.fault:
            times.now += 5.0
            assert states() == ["running", "running"]
    carrier.delay = 0.0
    for _ in range(4):
        times.now += 4.0
        await carrier.put("p0", report_of(0, times.now + apart))
        await crawl.look()
    assert states() == ["running", "gone"], "the engine answers again, but this worker does not report"


def test_a_page_says_that_the_engine_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path / "crawl")

    async def fill(engine: str) -> None:
        carrier = await open_carrier(engine, "crawl")
        await carrier.put(CRAWL, {"identity": encode_crawl(read_crawl_file(tmp_path / "crawl"))})
        for number in range(4):
            await carrier.put(f"p{number}", report_of(number, time.time()))
        await carrier.close()

    with redis_server(tmp_path / "server", "appendonly no") as server:
        asyncio.run(fill(server.url))
        source = EngineSource(server.url, "crawl", time.time)
        monkeypatch.setattr("crawler.service.engine_source._PATIENCE", 0.2)

        def read() -> list[str]:
            known = source.history.events.last
            source.take(source.read())
            return [event["kind"] for event in source.history.events.after(known)]

        with contextlib.closing(source):
            assert read() == []
            os.kill(server.pid, signal.SIGSTOP)
            try:
                assert read() == ["error"]
                assert read() == [], "once is enough"
                with pytest.raises(Unavailable):
                    source.settings()
            finally:
                os.kill(server.pid, signal.SIGCONT)
            wait_until(lambda: source.read() == "", "the engine answers")
            assert read() == ["run"]
            assert source.stats()["state"] == "running"


@pytest.mark.parametrize("apart", [0.0, 40.0, -40.0])
async def test_a_worker_of_whom_nothing_new_comes_is_gone_whatever_its_clock_says(tmp_path: Path, apart: float) -> None:
    begin(tmp_path / "crawl")
    file, times, carrier = read_crawl_file(tmp_path / "crawl"), Times(), MemoryCarrier(Holdings())
    await carrier.put(CRAWL, {"identity": encode_crawl(file)})
    crawl = await EngineCrawl.over(carrier, "crawl", "here", times.wall)
    crawl = EngineCrawl(carrier, crawl.crawl, "here", times.wall, times.steady)

    async def tell(number: int, *, last: bool = False) -> None:
        await carrier.put(f"p{number}", report_of(number, times.now + apart, last=last))

    def states() -> list[str]:
        return [part["state"] for part in crawl.stats(times.now)["partitions"]]

    await tell(0)
    await tell(1)
    await tell(2, last=True)
    await crawl.look()
    assert states() == ["running", "running", "ended", "untold"]
    await carrier.put("p2", {REPORT: b""})  # the carrier has lost it: what was told before still counts
    for _ in range(6):
        times.now += 5.0
        await tell(0)
        await crawl.look()
    stats = crawl.stats(times.now)
    assert states() == ["running", "gone", "ended", "untold"]
    assert (stats["state"], stats["urls_in_flight"], stats["urls_pending"]) == ("running", 4, 17)
    assert stats["partitions"][1]["process"] is None
    assert [told.number for told in crawl.gone(times.now)] == [1]
    await tell(1)
    await crawl.look()
    assert states() == ["running", "running", "ended", "untold"]


def test_a_crawl_that_goes_on_is_shown_whole_and_at_a_steady_pace(tmp_path: Path) -> None:
    directory, times = tmp_path / "crawl", Times()
    with Chain(6, 2) as chain:
        ran = crawler(*chain.seeds, "--job", directory, *WORDS[:-3], "--partition-count", "2", "--partitions", "1")
    assert ran.code == 0, ran.err
    assert "\nended after " in ran.err, "the summary says how long the run took"
    progress = CrawlProgress(directory, read_crawl_file(directory), times.steady)
    jobs = [partition.directory for partition in crawl_partitions(directory).found]
    live = Live(statistics(), {}, None, None, [])
    with contextlib.ExitStack() as locks:
        for number, job in enumerate(jobs):
            locks.callback(JobLock(job).release)
            write_live(job, live)
            if number == 0:
                assert progress.look() is None, "it would seem to have lost the pages of the others"
                assert progress.pages() == live.stats["pages_fetched"]
                times.now += 60.0
                assert progress.look() is not None, "who waits for ever is not waited for"
        view = CrawlSource(directory, times.wall)
        began = view.moment()
        times.now += 1.0
        view.take(view.read())
        assert view.moment() == began, "a process tells of two partitions every two seconds: a second shows no pace"
        times.now += 3.0
        view.take(view.read())
        assert view.moment() == began + 4.0
