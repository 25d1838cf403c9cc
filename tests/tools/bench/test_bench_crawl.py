"""``crawler bench crawl`` measures, and notices what a crawl of the synthetic web gets wrong."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec import convert

import crawler
from crawler.tools.bench import stage_samples
from crawler.tools.bench.crawl_report import Summary, table
from crawler.tools.bench.crawl_truth import READABLE, STATUS, Found, Verdict, judge_crawl
from crawler.tools.bench.loopback_run import check_event
from crawler.tools.bench.machine import describe_commit, why_not_native
from crawler.tools.bench.scripts import CHECKOUT
from crawler.tools.bench.stage_samples import STAGES, stage_of
from crawler.tools.bench.synthetic_crawl import Latency, WebServers, latency_of
from crawler.tools.bench.synthetic_server import STORM, STORMS, Weather
from crawler.tools.bench.synthetic_web import Kind, Mode, Shape, SyntheticWeb
from tests import program
from tests.needs import need, need_native
from tests.program import ROOT

SHAPE = Shape(300, 5, 2, Mode.WEB, 8080)
PACKAGE = Path(crawler.__file__).resolve().parent


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", Mode)
def test_a_crawl_finds_what_there_is(mode: Mode, tmp_path: Path) -> None:
    """With redirects, copies, robots.txt, and at least one storm."""
    plot = tmp_path / "plot.svg"
    words = ("--pages", "300", "--hosts", "6", "--seed", "2", "--mode", mode.value, "--no-peers", "--json")
    ran = program.crawler("bench", "crawl", *words, "--plot", plot, directory=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    told: dict[str, Any] = json.loads(ran.out)
    plain = {"page_size": 0, "https": False, "requests_a_connection": 0, "sessions": False}
    assert told["web"] == {"pages": 300, "hosts": 6, "seed": 2, "mode": mode.value, **plain}
    crawlers = {each["name"]: each for each in told["crawlers"]}
    assert [*crawlers] == ["floor", "crawler"]
    for each in crawlers.values():
        assert each["pages"] == 300
        assert not any(each[name] for name in ("missing", "twice", "unexpected", "wrong", "private"))
        assert each["refused"] > 0, "the storm came"
        assert 0 < each["latency"]["median"] <= each["latency"]["most"]
        assert min(each["cpu"], each["rss"], each["seconds"]) > 0
    ours = crawlers["crawler"]
    assert [*ours["stages"]] == [*STAGES]
    # Processes that parse have nothing to do where tokens tell all links.
    assert min(cost for stage, cost in ours["stages"].items() if stage != "parsers") > 0
    assert sum(ours["stages"].values()) == pytest.approx(ours["cpu"], rel=0.01)
    assert told["machine"]["native"] == ("yes" if why_not_native() is None else f"no: {why_not_native()}")
    assert told["of_the_floor"] == pytest.approx(ours["cpu"] / crawlers["floor"]["cpu"])
    assert ElementTree.parse(plot).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert [*tmp_path.iterdir()] == [plot]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("words", "new", "resumed"),
    [
        (("1/3",), (0.33, 0.6), (0.3, 1.0)),  # connections that open together at first have no ticket yet
        (("1", "--full-handshakes"), (1.0, 1.0), (0.0, 0.0)),
        (("0",), (0, 0.3), (0, 1.0)),
    ],
)
def test_a_crawl_over_https(
    words: tuple[str, ...], new: tuple[float, float], resumed: tuple[float, float], tmp_path: Path
) -> None:
    """Of pages of one size, over so many connections of their own, with a web archive."""
    need("openssl", "openssl")
    usual = ("--pages", "200", "--hosts", "3", "--page-size", "13000", "--no-peers", "--json", "--https", "--warc")
    ran = program.crawler("bench", "crawl", *usual, "--new-connections", *words, directory=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    told: dict[str, Any] = json.loads(ran.out)
    assert told["archive"]
    floor, ours = told["crawlers"]
    assert floor["pages"] == ours["pages"] == 200
    assert new[0] <= ours["connections"] <= new[1]
    assert resumed[0] <= ours["resumed"] <= resumed[1]
    assert floor["resumed"] == 0.0, "aiohttp resumes nothing"


def test_handshakes_need_https(tmp_path: Path) -> None:
    for words in (("--full-handshakes",), ("--new-connections", "2/3"), ("--new-connections", "some")):
        ran = program.crawler("bench", "crawl", *words, directory=tmp_path)
        assert ran.code == 2
        assert words[0] in ran.err


@pytest.mark.parametrize("https", [False, True])
def test_connections_are_told_of_where_they_cost_handshakes(*, https: bool) -> None:
    counts = dict.fromkeys(("pages", "missing", "twice", "unexpected", "wrong", "refused", "private", "samples"), 0)
    sizes = dict.fromkeys(("seconds", "pages_a_second", "cpu", "rss"), 1.0)
    told = {"name": "floor", "cpu_rounds": [], "latency": Latency(1, 1), "connections": 0.5, "resumed": 0.25}
    summary = convert({**counts, **sizes, **told, "stages": {}}, Summary)
    lines = table([summary], https=https)
    assert ("resumed" in lines[0]) is https
    assert any("25%" in line for line in lines) is https
    assert any("floor resumes no" in line for line in lines) is https


@pytest.mark.parametrize("native", ["on", "off"])
def test_a_figure_says_whether_compiled_code_did_the_work(native: str) -> None:
    if native == "on":
        need_native()
    code = "from crawler.tools.bench.machine import describe_machine; print(*describe_machine(), sep='\\n')"
    environment = os.environ | {"CRAWLER_NATIVE": native}
    run = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, check=True)
    told = dict(line.split(maxsplit=1) for line in run.stdout.decode().splitlines())
    if native == "on":
        assert told["native"] == "yes"
    else:  # where it was not built either, that is the reason
        assert re.match(r"no: (CRAWLER_NATIVE=off|cannot import name '_native')", told["native"])
        assert str(ROOT) not in told["native"]


def test_mistakes_are_counted() -> None:
    web = SyntheticWeb(SHAPE)
    right = [Found(url, STATUS[kind]) for url, kind in web.urls()]
    assert judge_crawl(web, right) == Verdict(300)
    first = Found(web.url(0), 200)
    assert judge_crawl(web, [each for each in right if each != first]) == Verdict(299, missing=1)
    assert judge_crawl(web, [*right, first]) == Verdict(300, twice=1)
    assert judge_crawl(web, [*right, Found(f"{first.url}nowhere", 404)]) == Verdict(300, unexpected=1)
    failed = [each._replace(status=503) if each == first else each for each in right]
    assert judge_crawl(web, failed) == Verdict(299, wrong=1)
    requested = [each._replace(status=200) if each.status is None else each for each in right]
    private = sum(each.status is None for each in right)
    assert private
    assert judge_crawl(web, requested) == Verdict(300, wrong=private)


def test_a_crawler_that_lists_pages_alone_is_judged_by_pages() -> None:
    web = SyntheticWeb(SHAPE)
    output = [Found(url, 200) for url, kind in web.urls() if kind in READABLE]
    assert judge_crawl(web, output, READABLE) == Verdict(300)
    moved = next(Found(url, 301) for url, kind in web.urls() if kind is Kind.MOVED)
    assert judge_crawl(web, [*output, moved], READABLE) == Verdict(300, unexpected=1)


def test_a_storm_comes_passes_and_comes_again() -> None:
    weather, (first, between) = Weather(), STORMS
    assert [weather.refuses(10.0) for _ in range(first)] == [None] * first
    assert weather.refuses(10.0) == weather.refuses(10.0 + STORM / 2) == 429
    after = 10.0 + STORM
    assert [weather.refuses(after) for _ in range(between)] == [None] * between
    assert weather.refuses(after) == 503


def test_servers_share_the_hosts_on_one_port() -> None:
    with WebServers(Shape(30, 3, port=0), shares=2) as servers:
        web = SyntheticWeb(servers.shape)
        for seed in web.seeds:
            number, _ = web.locate(seed) or pytest.fail("a seed is a page")
            address, port = seed.removeprefix("http://").removesuffix("/").split(":")
            with socket.create_connection((address, int(port)), 10) as connection:
                connection.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b""
                while not answer.endswith(b"</html>\n"):
                    answer += connection.recv(65_536) or pytest.fail("the connection ended")
            assert answer.endswith(web.page(number))
        requested = servers.stop()
    assert (requested.answers, requested.robots, requested.refused) == (6, 3, 0)


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "169.254.169.254", "localhost", "::1", b"example.org"])
def test_what_is_measured_reaches_no_other_machine(host: str) -> None:
    with socket.socket() as connection, pytest.raises(PermissionError, match="127"):
        check_event("socket.connect", (connection, (host, 80)))
    with pytest.raises(PermissionError, match="127"):
        check_event("socket.getaddrinfo", (host, 80, 0, 0, 0))


def test_what_is_measured_reaches_this_machine(tmp_path: Path) -> None:
    with socket.socket() as connection, socket.socket(socket.AF_UNIX) as local:
        check_event("socket.connect", (connection, ("127.64.0.1", 80)))
        check_event("socket.connect", (local, "/run/any"))
        check_event("socket.getaddrinfo", ("127.64.0.1", 80, 0, 0, 0))
    check_event("open", ("/etc/hosts", "r", 0))


def test_a_run_is_held_back_by_the_interpreter_itself(tmp_path: Path) -> None:
    (tmp_path / "wanderer.py").write_text(
        "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 1)\nexcept PermissionError as error:\n"
        "    print(error)\nsum(range(20_000_000))\n"
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'sum(range(10_000_000))'])\n"
    )
    samples = tmp_path / "samples.json"
    ran = subprocess.run(
        [sys.executable, "-m", "crawler.tools.bench.loopback_run", samples, "wanderer"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    assert "192.0.2.1" in ran.stdout
    taken = json.loads(samples.read_text("ascii"))
    assert {*taken["samples"]} <= {*STAGES}
    assert taken["samples"]["rest"] > 0
    assert taken["others"] >= 0.05, "the interpreter that it started"


def test_every_package_that_has_a_stage_is_there() -> None:
    """A package that is renamed must not move to ``rest`` in silence."""
    for name in stage_samples.PLACES:
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file(), name


@pytest.mark.parametrize(
    ("file", "stage"),
    [
        (PACKAGE / "web" / "fetch" / "fetcher.py", "fetch"),
        (PACKAGE / "url" / "urls" / "typed.py", "links"),
        (PACKAGE / "base" / "kv.py", "store"),
        (PACKAGE / "job" / "admission.py", "admit"),
        (PACKAGE / "job" / "job.py", "store"),
        (PACKAGE / "engine" / "visit.py", "rest"),
        ("/x/site-packages/aiohttp/client.py", "fetch"),
        ("/x/python3.11/json/encoder.py", None),
    ],
)
def test_code_has_the_stage_of_its_package(file: Path | str, stage: str | None) -> None:
    assert stage_of(str(file)) == stage


def test_latency_is_that_of_the_slowest_but_one_in_twenty() -> None:
    assert latency_of(Counter({5: 94, 70: 2, 900: 4})) == Latency(5.0, 70.0)
    assert latency_of(Counter({3: 1})) == Latency(3.0, 3.0)
    assert latency_of(Counter()) == Latency()


def test_a_figure_has_its_commit_where_there_is_one(tmp_path: Path) -> None:
    assert describe_commit(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert head.startswith(describe_commit(tmp_path) or "nothing")


def test_what_is_recorded_says_of_which_machine_and_commit_it_is() -> None:
    lines = (CHECKOUT / "history" / "crawl.jsonl").read_text("utf-8").splitlines()
    assert lines
    for line in lines:
        told = json.loads(line)
        assert re.fullmatch(r"[0-9a-f]{12}", told["commit"]), "not of files that differ from their commit"
        assert told["machine"]["machine"]
        (ours,) = [each for each in told["crawlers"] if each["name"] == "crawler"]
        assert ours["pages"] == told["web"]["pages"]
        assert not any(ours[name] for name in ("missing", "twice", "unexpected", "wrong", "private"))
