"""``crawler mcp``: an agent's tools, by the client of the package, on sites of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp import ClientSession, StdioServerParameters, stdio_client

from crawler.cli import main
from crawler.cli.agent_tools import TOOLS
from crawler.cli.mcp import MOST_SAID
from crawler.job.directory import holds_job
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import read_live
from tests.program import PATIENCE, ROOT, crawler, wait_until
from tests.site import Site, linked, tree

SLOTS = 2
CONFIG = f"[fetch]\nallow_private = true\n[politeness]\ndelay = 0.0\n[crawl]\nconcurrency = {SLOTS}\nmax_pages = 500\n"
GEESE = "<!doctype html><title>Geese</title><main><p>Geese fly north in spring. " + "They rest on lakes. " * 50
SITE = {
    "/": linked(["/geese", "/moved-away", "/secret"]),
    "/geese": GEESE + "</main>",
    "/secret": "nobody may see it",
}
ROBOTS = "User-agent: *\nDisallow: /secret\n"


class Agent:
    """A session with the server. ``pid`` is that of the server."""

    def __init__(self, session: ClientSession, pid: int) -> None:
        self.session = session
        self.pid = pid

    async def call(self, tool: str, **arguments: Any) -> list[str]:
        answer = await self.session.call_tool(tool, arguments)
        texts = [part.text for part in answer.content if part.type == "text"]
        assert not answer.is_error, texts
        return texts

    async def facts(self, tool: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await self.call(tool, **arguments))[0])
        return found

    async def refused(self, tool: str, **arguments: Any) -> str:
        answer = await self.session.call_tool(tool, arguments)
        (part,) = answer.content
        assert answer.is_error
        assert part.type == "text"
        assert len(part.text.splitlines()) == 1
        return part.text


@asynccontextmanager
async def agent(crawls: Path, *words: str | Path) -> AsyncIterator[Agent]:
    # The shell writes down the number of the process that becomes the server.
    told = crawls.parent / "pid"
    script = f'echo $$ > "{told}"; exec "{sys.executable}" -m crawler mcp --dir "$@"'
    program = StdioServerParameters(command="/bin/sh", args=["-c", script, "-", *map(str, (crawls, *words))], cwd=ROOT)
    async with stdio_client(program) as (asked, answers), ClientSession(asked, answers) as session:
        await session.initialize()
        yield Agent(session, int(told.read_text()))


@pytest.fixture
def crawls(tmp_path: Path) -> Iterator[Path]:
    """Where the crawls are; at the end none runs, and the client had to read nothing but the protocol."""
    directory = tmp_path / "crawls"
    yield directory
    for job in directory.glob("*/"):
        pid = lock_holder(job)
        if pid:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path / "agents.toml", CONFIG)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def files_of(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*") if path.is_file()}


async def test_an_agent_crawls_searches_and_reads(crawls: Path, config: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Site(SITE, robots=ROBOTS) as site:
        async with agent(crawls, "--config", config) as asking:
            tools = (await asking.session.list_tools()).tools
            assert {tool.name for tool in tools} == set(TOOLS)
            assert {tool.name for tool in tools if tool.annotations and not tool.annotations.read_only_hint} == {
                "crawl",
                "stop",
            }
            seeds = [site.url("/")]
            state = await asking.facts("crawl", seeds=seeds, wait=50)
            name = site.hosts[0].replace(":", "-")
            assert (state["name"], state["running"], state["state"]) == (name, False, "ended")
            assert state["pages_by_status"] == {"2xx": 2, "4xx": 1, "5xx": 0}
            assert site.count("/secret") == 0, "robots.txt disallows it"

            before = files_of(crawls / name)
            assert await asking.facts("status") == {"running": {name: False}}
            assert await asking.facts("status", name=name) == state
            found = await asking.facts("search", name=name, query="lakes GEESE")
            (hit,) = found["results"]
            assert (found["pages"], hit["url"], hit["title"]) == (1, site.url("/geese"), "Geese")
            assert "Geese fly north" in hit["snippet"]
            assert (await asking.facts("search", name=name, query="ducks"))["results"] == []
            parts, offset = "", 0
            while offset is not None:
                facts, part = await asking.call("read", name=name, url=hit["url"], limit=400, offset=offset)
                parts, offset = parts + part, json.loads(facts)["next_offset"]
            assert parts.startswith("Geese fly north in spring.")
            assert parts.count("They rest on lakes.") == 50
            assert "404" in await asking.refused("read", name=name, url=site.url("/moved-away"))
            assert "robots" in await asking.refused("read", name=name, url=site.url("/secret"))
            await asking.refused("read", name=name, url=site.url("/unknown"))
            broken = await asking.facts("broken_links", name=name)
            (link,) = broken["links"]
            assert (broken["broken"], link["url"], link["status"]) == (1, site.url("/moved-away"), 404)
            assert [each["page"] for each in link["pages"]] == [site.url("/")]
            _, why = await asking.call("explain", name=name, url=site.url("/secret"))
            assert "disallowed by robots.txt" in why
            assert files_of(crawls / name) == before, "looking changes nothing"

            assert (await asking.facts("stop", name=name))["state"] == "ended"
            for name_ in ("../elsewhere", "/tmp/elsewhere", "..", "", "a/b", "a" * 65):
                await asking.refused("crawl", seeds=seeds, name=name_)
                await asking.refused("search", name=name_, query="geese")
            for wrong in (
                {"seeds": []},
                {"seeds": ["/etc/hostname"]},
                {"seeds": ["ftp://h.test/"]},
                {"seeds": [f"{site.url('/')}\nhttp://h.test/"]},
                {"seeds": seeds, "max_pages": 0},
                {"seeds": seeds, "max_pages": "many"},
                {"seeds": seeds, "max_pages": 501},
                {"seeds": seeds, "max_pages": 2**70},
                {"seeds": seeds, "max_depth": 5_000_000_000},
                {"seeds": seeds, "max_time": 3_601},
                {"seeds": seeds, "ignore_robots": True},
                {},
            ):
                await asking.refused("crawl", **wrong)
            await asking.refused("shell", command="true")
            (crawls / "photographs").mkdir()
            (crawls / "photographs" / "1.jpg").write_bytes(b"")
            await asking.refused("crawl", seeds=seeds, name="photographs")
            (crawls / "link").symlink_to(crawls / name)
            await asking.refused("search", name="link", query="geese")
            await asking.refused("crawl", seeds=seeds, name="link")
            assert os.listdir(crawls / "photographs") == ["1.jpg"]
            assert sorted(os.listdir(crawls)) == sorted([".lock", name, "photographs", "link"])
            assert sorted(site.pages_asked()) == sorted(map(site.url, ("/", "/geese", "/moved-away")))
    assert not [record for record in caplog.records if record.name.startswith("mcp")], "a line that is no message"


class Held:
    """Pages of which a site serves only the first ``most``; whatever is asked then waits."""

    def __init__(self, pages: Mapping[str, str], most: int) -> None:
        self.pages = pages
        self.most = most
        self.asked = self._served = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        while self._served >= self.most:  # noqa: ASYNC110, another thread changes it
            await asyncio.sleep(0.01)
        self._served += 1
        return web.Response(text=self.pages[request.path], content_type="text/html")

    def reached(self) -> bool:
        return self.asked > self.most


async def test_killed_servers_and_crawls_lose_nothing(crawls: Path, config: Path) -> None:
    pages, job = tree(60), crawls / "tree"
    held = Held(pages, 12)
    with Site(dict.fromkeys(pages, held.answer)) as site:
        asked = {"seeds": [site.url("/")], "name": "tree"}
        async with agent(crawls, "--config", config) as asking:
            assert (await asking.facts("crawl", **asked, wait=0))["running"]
            wait_until(held.reached, "the crawl is on its way")
            os.kill(asking.pid, signal.SIGKILL)
        async with agent(crawls, "--config", config) as asking:
            assert (await asking.facts("crawl", **asked, wait=0))["running"], "the crawl outlives its server"
            wait_until(lambda: read_live(job).stats["pages_fetched"] >= 10, "they are final")  # type: ignore[union-attr]
            assert (await asking.facts("search", name="tree", query="page"))["pages"] >= 10
            await asking.refused("crawl", seeds=asked["seeds"], name="other")  # on the same host
            await asking.refused("crawl", seeds=[site.url("/page/1")], name="tree")  # another seed, while it runs
            crawl = lock_holder(job)
            assert crawl
            os.kill(crawl, signal.SIGKILL)
            wait_until(lambda: lock_holder(job) is None, "its end")
            assert (await asking.facts("status", name="tree"))["stopped_by"] == "killed"

            held.most = 30
            assert (await asking.facts("crawl", **asked, wait=0))["running"]
            wait_until(held.reached, "it was resumed")
            stop = asyncio.create_task(asking.facts("stop", name="tree"))
            while (await asking.facts("status", name="tree"))["state"] == "running":
                pass
            held.most = 40
            state = await stop
            assert (state["state"], state["running"]) == ("stopped", False)
            assert 20 < state["urls_by_outcome"]["fetched"] < len(pages)
            assert (await asking.facts("crawl", **asked, wait=0))["running"]
            wait_until(held.reached, "it was resumed")
            whole = asyncio.create_task(asking.facts("crawl", **asked, wait=50))
            await asking.facts("status", name="tree")  # asked later, answered earlier
            crawl = lock_holder(job)
            assert crawl
            os.kill(crawl, signal.SIGKILL)
            held.most = 1000
            state = await whole
            assert (state["state"], state["urls_by_outcome"]["fetched"]) == ("ended", len(pages))
        counts = Counter(site.pages_asked())
    assert set(counts) == set(map(site.url, pages))
    assert counts.total() - len(counts) <= 3 * SLOTS, "after SIGKILL only what was in flight is fetched again"
    done = [json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines()]
    assert sorted(done) == sorted(counts)


async def test_a_call_whose_crawl_dies_before_its_job_exists_can_be_repeated(crawls: Path, config: Path) -> None:
    with Site(SITE) as site:
        asked = {"seeds": [site.url("/")], "name": "early"}
        async with agent(crawls, "--config", config) as asking:
            for _ in range(3):
                refused = asyncio.create_task(asking.refused("crawl", **asked))
                while not (found := children(asking.pid)) and not refused.done():  # noqa: ASYNC110, another process
                    await asyncio.sleep(0.005)
                for crawl in found:
                    os.kill(crawl, signal.SIGKILL)
                assert "-9" in await refused
            assert not holds_job(crawls / "early")
            state = await asking.facts("crawl", **asked, wait=50)
            assert (state["state"], state["urls_by_outcome"]["fetched"]) == ("ended", 4)


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


async def test_a_refused_start_leaves_no_seeds_and_no_directory(crawls: Path, config: Path) -> None:
    with Site(SITE) as site:
        async with agent(crawls, "--config", config) as asking:
            written(config, CONFIG.replace("delay", "dealy"))
            assert "dealy" in await asking.refused("crawl", seeds=[site.url("/secret")], name="some")
            assert not (crawls / "some").exists()
            written(config, CONFIG)
            too_long = site.url("/secret?") + "y" * 200_000  # for a command line
            await asking.refused("crawl", seeds=[too_long], name="some")
            assert not (crawls / "some").exists()
            await asking.facts("crawl", seeds=[site.url("/geese")], name="some", wait=50)
        assert site.pages_asked() == [site.url("/geese")]


async def test_a_refused_start_removes_no_file_that_was_there(crawls: Path, config: Path) -> None:
    with Site(SITE) as site:
        async with agent(crawls, "--config", config) as asking:
            await asking.facts("crawl", seeds=[site.url("/")], name="some", wait=50)
            (crawls / "some" / "job.json").unlink()
            (crawls / "other").mkdir()
            for name in ("some/pages.jsonl", "other/.hidden", "other/store"):
                (crawls / name).touch()
            kept = {name for name in files_of(crawls) if "crawl.log" not in name}
            for name in ("some", "other"):
                await asking.refused("crawl", seeds=[site.url("/")], name=name, wait=50)
            assert kept <= files_of(crawls).keys()


async def test_a_directory_that_cannot_be_read_hinders_no_other(crawls: Path, config: Path) -> None:
    with Site(SITE) as site:
        async with agent(crawls, "--config", config) as asking:
            (crawls / "bad").mkdir()
            (crawls / "bad" / "job.json").touch()
            (crawls / "bad" / "lock").symlink_to("lock")
            asked = {"seeds": [site.url("/geese")], "name": "some", "wait": 50}
            assert (await asking.facts("crawl", **asked))["state"] == "ended"
            assert await asking.facts("status") == {"running": {"some": False}}
            assert "lock" in await asking.refused("status", name="bad")
            shutil.rmtree(crawls)
            assert "No such file" in await asking.refused("crawl", **asked)


async def test_crawls_of_the_command_line_are_read(crawls: Path, config: Path) -> None:
    with Site(SITE) as site:
        for name, *words in ("plain",), ("parts", "--partitions", "2", "--output", "text,links"):
            given = ("--allow-private", "--delay", "0", "--job", crawls / name, *words)
            assert crawler(site.url("/"), *given).code == 0
        async with agent(crawls, "--config", config) as asking:
            assert "text" in await asking.refused("search", name="plain", query="geese")
            assert (await asking.facts("search", name="parts", query="geese"))["pages"] == 1
            for name, text in ("plain", ""), ("parts", "x"):
                (link,) = (await asking.facts("broken_links", name=name))["links"]
                assert link["url"] == site.url("/moved-away")
                assert link["pages"] == [{"page": site.url("/"), "text": text}]


async def test_answers_have_the_names_of_arguments_and_refuse_what_is_not_a_url(crawls: Path, config: Path) -> None:
    with Site(SITE) as site:
        async with agent(crawls, "--config", config) as asking:
            state = await asking.facts("crawl", seeds=[site.url("/")], max_pages=1, wait=50)
            assert "max_pages" in state["stopped"]
            assert "--" not in json.dumps(state)
            for wrong in ("nope", "", "file:///etc/hostname"):
                for tool in ("read", "explain"):
                    await asking.refused(tool, name=state["name"], url=wrong)
            assert len(await asking.refused("read", name=state["name"], url="x" * 100_000)) <= 2 * MOST_SAID
            for tool, more in {"search": {"query": "x"}, "read": {"url": site.url("/")}, "broken_links": {}}.items():
                await asking.refused(tool, name=state["name"], offset=2**63, **more)


def test_half_of_a_surrogate_pair_is_answered(crawls: Path) -> None:
    with server(crawls) as (process, ask):
        ask({"method": "notifications/initialized"})
        found = ask({"id": 2, "method": "tools/call", "params": {"name": "status", "arguments": {"name": "\ud800"}}})
        process.stdin.close()  # type: ignore[union-attr]
    assert (found["id"], found["result"]["isError"], process.returncode) == (2, True, 0)


def test_the_client_reads_only_answers_and_the_server_ends_when_it_reads_no_more(crawls: Path, tmp_path: Path) -> None:
    written(tmp_path / "noisy.py", "print('loaded')\n\ndef look(page):\n    pass\n")
    config = written(tmp_path / "agents.toml", '[hooks]\non_page = "noisy:look"\n')
    with server(crawls, "--config", config) as (process, ask):
        process.stdout.close()  # type: ignore[union-attr]
        with pytest.raises(ValueError, match="closed"):
            ask({"id": 2, "method": "ping"})
        assert process.wait(PATIENCE) > 0


@contextmanager
def server(crawls: Path, *words: str | Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[Any], Any]]]:
    """A server, and a function that writes a message and, if it asks, returns the answer, which is the next line."""
    known = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    command = [sys.executable, "-m", "crawler", "mcp", "--dir", str(crawls), *words]
    code = os.environ | {"PYTHONPATH": f"{ROOT}:{crawls.parent}"}
    with subprocess.Popen(
        command, cwd=crawls.parent, env=code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask(message: dict[str, Any]) -> Any:
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline()) if "id" in message else None

        assert ask({"id": 1, "method": "initialize", "params": known})["id"] == 1
        yield process, ask


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b")])
async def test_two_servers_on_one_directory_start_each_crawl_and_each_host_once(
    crawls: Path, config: Path, names: tuple[str, str]
) -> None:
    pages = tree(4)
    held = Held(pages, 0)
    with Site(dict.fromkeys(pages, held.answer)) as site:
        words = {"seeds": [site.url("/")], "wait": 0}
        async with agent(crawls, "--config", config) as one, agent(crawls, "--config", config) as other:
            calls = (
                asking.session.call_tool("crawl", {**words, "name": name})
                for asking, name in zip((one, other), names, strict=True)
            )
            answers = await asyncio.gather(*calls)
            (name,) = (await one.facts("status"))["running"]
            refused = [called for called, answer in zip(names, answers, strict=True) if answer.is_error]
            assert refused == [each for each in names if each != name]
            held.most = 100
            assert (await other.facts("crawl", **{**words, "name": name, "wait": 50}))["state"] == "ended"
        assert sorted(site.pages_asked()) == sorted(map(site.url, pages))


async def test_only_the_operator_opens_private_addresses_and_sets_the_most(crawls: Path, config: Path) -> None:
    written(config, '[crawl]\nmax_pages = 7\nmax_time = "20s"\n')
    with Site(SITE) as site:
        async with agent(crawls, "--config", config) as asking:
            state = await asking.facts("crawl", seeds=[site.url("/")], wait=50)
            assert (state["urls_by_outcome"]["fetched"], state["urls_by_outcome"]["excluded"]) == (0, 1)
            assert "private-address" in state["log"]
            assert "7" in await asking.refused("crawl", seeds=[site.url("/")], max_pages=8)
            assert "20" in await asking.refused("crawl", seeds=[site.url("/")], max_time=21)
        assert site.asked == []


@pytest.mark.parametrize(
    "settings", ["[partitions]\nprocesses = 2", '[crawl]\nstore = "file:/tmp/x"', "[fetch]\nspeed = 1"]
)
def test_settings_that_no_crawl_could_have_end_the_server(settings: str, tmp_path: Path) -> None:
    ran = crawler("mcp", "--dir", tmp_path / "crawls", "--config", written(tmp_path / "agents.toml", settings))
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp", "--dir", str(tmp_path / "crawls")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"pip install '{project['name']}[mcp]'" in err
    assert "mcp" in project["optional-dependencies"]
    assert not (tmp_path / "crawls").exists()
