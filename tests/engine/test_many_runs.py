"""One worker drives many runs, which come and go while it does."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from crawler.base.settings import CrawlSettings, FetchSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import State, Stop
from crawler.engine.membership import FencedNetwork, Membership
from crawler.engine.run import GRACE, Run
from crawler.engine.worker import Worker
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.shared_platform import SharedPlatform
from crawler.url.urls import Canonical, Canonicaliser
from crawler.web.fetch import Fetcher, Response
from crawler.web.fetch.fence import FencedOffError
from tests.engine.fleet import Fleet, contents, until
from tests.jobs import rows
from tests.laboratory import SETTINGS, links

PAGES = 8


def site(*names: str, pages: int = PAGES) -> dict[str, str | Response]:
    """Sites whose front pages link to all their pages."""
    web: dict[str, str | Response] = {}
    for name in names:
        web[f"http://{name}.test/"] = links([f"/{number}" for number in range(1, pages)])
        web |= {f"http://{name}.test/{number}": "" for number in range(1, pages)}
    return web


def all_once(*names: str, pages: int = PAGES) -> dict[str, int]:
    return dict.fromkeys(site(*names, pages=pages), 1)


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    settings = replace(SETTINGS, politeness=PolitenessSettings(delay=1.0))
    return Fleet(tmp_path, dict(site("a", "b", "c")), settings)


def test_runs_come_and_go_while_the_worker_drives(fleet: Fleet) -> None:
    async def test(worker: Worker) -> None:
        await asyncio.sleep(10.0)  # with no run at all
        a = fleet.begin(worker, "a", "http://a.test/")
        await until(lambda: a.job.counters.fetched == 2)
        b = fleet.begin(worker, "b", "http://b.test/")
        await until(lambda: b.job.counters.fetched == 3)
        await worker.remove(a)
        assert (a.life.state, a.life.reason) == (State.STOPPED, Stop.INTERRUPTED)
        assert not a.under_way, "what was in flight was finished"
        left = a.job.counters.pending
        assert left == PAGES - a.job.counters.fetched > 0
        fleet.close("a")
        c = fleet.begin(worker, "c", "http://c.test/")
        await asyncio.gather(worker.until_over(b), worker.until_over(c))
        assert {b.life.reason, c.life.reason} == {Stop.FINISHED}
        again = fleet.begin(worker, "a")
        assert again.job.counters.pending == left
        await worker.until_over(again)
        assert again.life.reason is Stop.FINISHED

    fleet.live(test)
    for name in "abc":
        assert fleet.recorded(name) == all_once(name)
    assert len(fleet.asked) == 3 * PAGES, "nothing was asked twice"


def test_what_is_in_flight_when_a_run_is_removed_gets_its_grace_and_no_more(fleet: Fleet) -> None:
    fleet.seconds = 60.0

    async def test(worker: Worker) -> float:
        run = fleet.begin(worker, "a", "http://a.test/")
        await until(lambda: bool(run.under_way))
        began = fleet.clock()
        await worker.remove(run)
        assert run.job.counters.pending == 1
        return fleet.clock() - began

    assert fleet.live(test) == pytest.approx(GRACE, abs=0.01)


def test_nothing_is_written_to_a_job_that_was_broken_off(fleet: Fleet) -> None:
    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", "http://a.test/")
        b = fleet.begin(worker, "b", "http://b.test/")
        await until(lambda: a.job.counters.fetched == 2 and bool(a.under_way))
        began = fleet.clock()
        await worker.break_off(a)
        assert fleet.clock() == began, "nobody waits for what is in flight"
        assert (a.life.state, a.life.reason) == (State.STOPPED, None)
        assert not a.under_way
        commits, stored, files = a.job.writer.commits, contents(fleet.stores["a"]), tree(a.job.directory)
        asked = [href for href in fleet.asked if "//a." in href]
        await worker.until_over(b)
        await asyncio.sleep(100.0)
        assert a.job.writer.commits == commits
        assert [href for href in fleet.asked if "//a." in href] == asked
        assert contents(fleet.stores["a"]) == stored
        assert tree(a.job.directory) == files, "no checkpoint either"
        fleet.close("a")
        again = fleet.begin(worker, "a")
        assert again.job.counters.pending == PAGES - 2
        await worker.until_over(again)

    fleet.live(test)
    assert fleet.recorded("a") == all_once("a")
    assert fleet.recorded("b") == all_once("b")


def test_a_run_whose_request_waits_for_the_rate_is_broken_off_too(fleet: Fleet) -> None:
    fleet.settings = replace(fleet.settings, politeness=replace(fleet.settings.politeness, rate=0.01))

    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", "http://a.test/")
        await until(lambda: a.job.counters.fetched == 1 and worker.context.capacity().waiting > 0)
        asked = len(fleet.asked)
        await worker.break_off(a)
        await asyncio.sleep(1_000.0)
        assert len(fleet.asked) == asked
        assert a.job.counters.pending == PAGES - 1

    fleet.live(test)


def test_an_error_in_one_run_ends_all_and_is_raised(fleet: Fleet) -> None:
    async def bad() -> AsyncIterator[list[str]]:
        await asyncio.sleep(3.0)
        raise ZeroDivisionError
        yield []

    async def test(worker: Worker) -> None:
        a = fleet.begin(worker, "a", "http://a.test/")
        fleet.begin(worker, "b", "http://b.test/")
        worker.add(Run(fleet.jobs["b"], fleet.settings, worker.context, bad()))
        await worker.until_over(a)
        assert (a.life.state, a.life.reason) == (State.STOPPED, None)
        assert a.job.counters.pending > 0

    with pytest.raises(ZeroDivisionError):
        fleet.live(test)


def test_sixty_four_runs_have_equal_turns(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(64)]
    settings = replace(
        SETTINGS,
        crawl=replace(SETTINGS.crawl, concurrency=4),
        politeness=PolitenessSettings(delay=0.0, per_host=4),
    )
    fleet = Fleet(tmp_path, dict(site(*names, pages=5)), settings)

    async def test(worker: Worker) -> None:
        runs = [fleet.begin(worker, name, f"http://{name}.test/") for name in names]
        await asyncio.gather(*(worker.until_over(run) for run in runs))
        assert {run.life.reason for run in runs} == {Stop.FINISHED}

    fleet.live(test)
    for name in names:
        assert fleet.recorded(name) == all_once(name, pages=5)
    hosts = [href.split("/")[2] for href in fleet.asked]
    for turn in range(5):
        part = hosts[turn * 64 : (turn + 1) * 64]
        assert len(set(part)) >= 60, "each has one request in a round"


# -- partitions --------------------------------------------------------------------------------------------------


def test_a_partition_is_idle_and_waits_until_it_is_told_that_the_crawl_is_over(fleet: Fleet) -> None:
    sent = False

    async def test(worker: Worker) -> None:
        nonlocal sent
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(lambda: True, lambda: sent))
        await until(lambda: run.job.counters.fetched == PAGES)
        assert not run.is_idle, "something waits to be sent"
        sent = True
        assert run.is_idle
        await asyncio.sleep(100.0)
        assert run.life.state is State.RUNNING
        (url,) = [each for each in [Canonicaliser().canonicalise("http://b.test/7")] if isinstance(each, Canonical)]
        run.job.admit(Found([url], 0))
        run.wake()
        assert not run.is_idle, "another partition has found something"
        await until(lambda: run.is_idle)
        run.finish()
        await worker.until_over(run)
        assert (run.life.state, run.life.reason) == (State.ENDED, Stop.FINISHED)

    fleet.live(test)
    assert fleet.recorded("a") == {**all_once("a"), "http://b.test/7": 1}


def test_a_limit_stops_a_partition_that_is_idle(fleet: Fleet) -> None:
    fleet.settings = replace(fleet.settings, crawl=replace(fleet.settings.crawl, max_time=50.0))

    async def test(worker: Worker) -> float:
        began = fleet.clock()
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(lambda: True, lambda: True))
        await worker.until_over(run)
        assert run.life.reason is Stop.MAX_TIME
        return fleet.clock() - began

    assert fleet.live(test) == pytest.approx(50.0, abs=0.01)


def test_a_partition_asks_for_nothing_while_it_may_not(fleet: Fleet) -> None:
    ours = True

    async def test(worker: Worker) -> None:
        nonlocal ours
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(lambda: ours, lambda: True))
        await until(lambda: run.job.counters.fetched == 2)
        ours = False
        asked = len(fleet.asked)
        await asyncio.sleep(100.0)
        assert len(fleet.asked) == asked
        assert run.life.state is State.RUNNING
        ours = True
        run.wake()
        await until(lambda: run.is_idle)
        run.finish()
        await worker.until_over(run)

    fleet.live(test)
    assert fleet.recorded("a") == all_once("a")


def test_a_url_whose_request_was_not_sent_is_asked_for_later(fleet: Fleet) -> None:
    """The claim ends while its connection is made: between the lease and the request."""
    answers: list[bool] = []
    ours = True

    def may_request() -> bool:
        nonlocal ours
        answers.append(ours)
        if len(answers) == 6:
            ours = False
        return answers[-1]

    async def test(worker: Worker) -> None:
        nonlocal ours
        run = fleet.begin(worker, "a", "http://a.test/", member=Membership(may_request, lambda: True))
        await until(lambda: not ours)
        await asyncio.sleep(100.0)
        assert run.job.counters.pending > 0
        assert not run.under_way
        assert run.job.counters.retries == 0
        ours = True
        run.wake()
        await until(lambda: run.is_idle)
        run.finish()
        await worker.until_over(run)

    fleet.live(test)
    assert fleet.recorded("a") == all_once("a")
    assert len(fleet.asked) == PAGES


class Listener:
    """A server that notes its connections and what comes on them."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[str] = []

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head.split()[1].decode())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.mark.parametrize("kept", [False, True])
async def test_a_request_is_not_sent_on_a_connection_that_was_made_too_late(kept: bool) -> None:
    server, answers = Listener(), list[bool]()
    url = await server.start()
    try:
        async with Fetcher(FetchSettings(allow_private=True), concurrency=2, per_host=1) as fetcher:
            network = FencedNetwork(fetcher, lambda _: 0.0, lambda: answers.pop(0))
            if kept:
                answers += [True, True]
                assert isinstance(await network.fetch(f"{url}/first"), Response)
            answers += [True, False]  # before anything is dialled, and before the request is sent
            with pytest.raises(FencedOffError):
                await network.fetch(f"{url}/late")
            answers += [True, True]
            assert isinstance(await network.fetch(f"{url}/last"), Response)
            assert isinstance(await fetcher.fetch(f"{url}/free"), Response), "nobody else is asked"
    finally:
        server.stop()
    assert server.requests == ["/first"] * kept + ["/last", "/free"]
    assert server.connections == 2
    assert not answers


async def test_a_request_waits_for_its_gap_when_it_is_connected() -> None:
    server, waits = Listener(), [0.01, 0.02, 0.0]
    seen = list[tuple[int, int]]()

    def wait(_: str) -> float:
        seen.append((server.connections, len(server.requests)))
        return waits.pop(0)

    url = await server.start()
    try:
        async with Fetcher(FetchSettings(allow_private=True), concurrency=2, per_host=1) as fetcher:
            answer = await FencedNetwork(fetcher, wait, None).fetch(f"{url}/page")
    finally:
        server.stop()
    assert isinstance(answer, Response)
    assert answer.status == 200
    assert server.requests == ["/page"]
    assert [requests for _, requests in seen] == [0, 0, 0]


def test_the_generations_of_partitions_are_written_one_after_the_other(fleet: Fleet) -> None:
    fleet.settings = replace(
        fleet.settings, durability=replace(fleet.settings.durability, sync_interval=1.0, checkpoint_interval=60.0)
    )
    fleet.pages |= site("a", "b", "c", "d", "e", pages=200)

    async def test(worker: Worker) -> None:
        runs = {
            name: fleet.begin(worker, name, f"http://{name}.test/", partition=(number, 4))
            for number, name in enumerate("abcd")
        }
        runs["e"] = fleet.begin(worker, "e", "http://e.test/")
        began, written = fleet.clock(), dict[str, float]()
        while len(written) < 5:
            await asyncio.sleep(0.5)
            for name, run in runs.items():
                if run.job.checkpointer.manifest is not None:
                    written.setdefault(name, fleet.clock() - began)
        expected = {"a": 15.0, "b": 30.0, "c": 45.0, "d": 60.0, "e": 60.0}
        assert written == pytest.approx(expected, abs=2.0)
        for run in runs.values():
            await worker.break_off(run)

    fleet.live(test)


# -- real jobs and servers ---------------------------------------------------------------------------------------

ADDRESSES = [f"127.0.0.{number}" for number in range(2, 10)]
REAL = Settings(
    crawl=CrawlSettings(concurrency=4),
    politeness=PolitenessSettings(delay=0.0, per_host=4),
    fetch=FetchSettings(allow_private=True),
    robots=RobotsSettings(ignore=True),
)


async def serve(asked: list[str]) -> tuple[web.AppRunner, int]:
    """One site of ``PAGES`` pages at each address, all on one port."""

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.host}{request.path}")
        await asyncio.sleep(0.02)
        return web.Response(text=links([f"/{n}" for n in range(1, PAGES)]), content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = 0
    for address in ADDRESSES:
        await web.TCPSite(runner, address, port).start()
        port = runner.addresses[0][1]
    return runner, port


async def test_real_jobs_come_and_go_and_share_a_platform(tmp_path: Path) -> None:
    asked: list[str] = []
    runner, port = await serve(asked)
    jobs = dict[str, Job]()
    try:
        with SharedPlatform(len(ADDRESSES)) as platform:
            async with Fetcher(REAL.fetch, concurrency=4, per_host=4) as fetcher:
                worker = Worker(fetcher, REAL, time.time)
                serving = asyncio.create_task(worker.serve())

                def begin(name: str, *urls: str) -> Run:
                    jobs[name] = Job(tmp_path / name, REAL, time.time(), platform)
                    run = Run(jobs[name], REAL, worker.context, only(*urls))
                    worker.add(run)
                    return run

                runs = {name: begin(name, f"http://{name}:{port}/") for name in ADDRESSES}
                moved, lost = ADDRESSES[:2]
                while min(jobs[name].counters.fetched for name in (moved, lost)) < 2:  # noqa: ASYNC110 (what is waited for is on the other side of a socket)
                    await asyncio.sleep(0.01)
                await worker.remove(runs[moved])
                await worker.break_off(runs[lost])
                in_flight = {name: jobs[name].counters.pending - jobs[name].frontier.queued for name in (moved, lost)}
                for name in (moved, lost):
                    jobs.pop(name).close()
                    runs[name] = begin(name)
                await asyncio.gather(*(worker.until_over(run) for run in runs.values()))
                worker.end()
                await serving
                assert {run.life.reason for run in runs.values()} == {Stop.FINISHED}
            for job in jobs.values():
                job.close()
    finally:
        await runner.cleanup()
    for name in ADDRESSES:
        assert {row["url"] for row in rows(tmp_path / name)} == {
            f"http://{name}:{port}/{page}" for page in ("", *range(1, PAGES))
        }
        assert len(rows(tmp_path / name)) == PAGES
    times_asked = Counter(asked)
    assert in_flight[moved] == 0
    again = [page for page, times in times_asked.items() if times > 1]
    assert all(page.startswith(f"{lost}:") for page in again)
    assert len(again) <= 4, "at most what was in flight"
    first = [page.split(":")[0] for page in asked[: 2 * len(ADDRESSES)]]
    assert set(first) == set(ADDRESSES), f"they take turns: {first}"


async def only(*urls: str) -> AsyncIterator[list[str]]:
    yield list(urls)
