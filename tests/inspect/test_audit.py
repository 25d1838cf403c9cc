"""What `crawler audit` finds in the log of a real server: nothing of a crawl as it was, and all that is planted."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.cli import main
from tests.program import crawler
from tests.site import Site, linked

AGENT = "auditee/1.0"
QUICK, SLOW, HELD = 0, 1, 2  # the hosts: without a delay of its own, with one, and one that asks to wait


def line(at: float, path: str, agent: str = AGENT, status: int = 200) -> str:
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(at))
    return f'127.0.0.1 - - [{when}] "GET {path} HTTP/1.1" {status} 12 "-" "{agent} (+http://a.test/)"'


@dataclass
class Logged(Site):
    """A site that logs in the combined format."""

    lines: list[str] = field(default_factory=list)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._answer(request)
        agent, at = request.headers["User-Agent"].split(" ")[0], time.time()
        self.lines.append(line(at, request.path_qs, agent, answer.status))
        return answer


@dataclass(frozen=True)
class Crawled:
    """A job, its sites, and when the crawl began and ended."""

    sites: list[Logged]
    job: Path
    begin: float
    end: float

    def lines(self, host: int) -> list[str]:
        return self.sites[host].lines

    def audit(self, capsys: Any, log: Path, host: int, *more: str) -> tuple[int, dict[str, Any]]:
        code = main(["audit", str(self.job), str(log), "--host", self.sites[host].hosts[0], "--json", *more])
        return code, json.loads(capsys.readouterr().out)["hosts"][0]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    here, begin = tmp_path_factory.mktemp("audit"), time.time()

    async def wait(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "600"})

    with contextlib.ExitStack() as stack:
        sites = []
        for host in (QUICK, SLOW, HELD):
            robots = f"User-agent: auditee\n{'Crawl-delay: 1' if host == SLOW else ''}\nDisallow: /private/\n"
            pages = {"/": wait if host == HELD else linked(["/a", "/b", "/private/a"]), "/a": "a", "/b": "b"}
            sites.append(stack.enter_context(Logged(pages, robots=robots, address=(f"127.0.0.{host + 1}", 0))))
        flags = ("--allow-private", "--delay", "0.1", "--user-agent", AGENT, "--max-time", "8", "--job", here / "job")
        ran = crawler("crawl", *[site.url("/") for site in sites], *flags, directory=here)
        assert ran.code == 0, ran.err
        yield Crawled(sites, here / "job", begin, time.time())


@pytest.mark.parametrize("host", [QUICK, SLOW, HELD])
def test_a_crawl_that_obeys_is_clean(crawled: Crawled, tmp_path: Path, capsys: Any, host: int) -> None:
    log = tmp_path / "access.log"
    others = [line(crawled.end, "/private/x", "other/1.0 auditee")] * 9
    log.write_text("\n".join([*others, *crawled.lines(host), "", "what is this"]))
    code, found = crawled.audit(capsys, log, host)
    assert (code, found["violations"], found["not_judged"]) == (0, [], 0)
    assert found["requests"] == (2 if host == HELD else 4)


def test_all_that_is_planted_is_found(crawled: Crawled, tmp_path: Path, capsys: Any) -> None:
    end, before = crawled.end + 60, crawled.begin - 30
    planted: list[tuple[int, str, list[str]]] = [
        (QUICK, "disallowed", [line(end, "/private/secret?x=1")]),
        (QUICK, "disallowed", [line(end, "/%70rivate/secret")]),
        (QUICK, "before_robots", [line(before, "/a")]),
        (QUICK, "gap", [line(end, "/b")] * 11),
        (SLOW, "crawl_delay", [line(end, "/a"), line(end, "/b")]),
    ]
    for number, (host, rule, lines) in enumerate(planted):
        log = tmp_path / f"{number}.log"
        log.write_text("\n".join([*crawled.lines(host), *lines]))
        code, found = crawled.audit(capsys, log, host)
        assert code == 1
        assert {each["rule"] for each in found["violations"]} == {rule}
        target = lines[-1].split(" ")[6]
        assert {each["target"] for each in found["violations"]} == {target}
        last = found["violations"][-1]
        assert last["log"] == f"{log}:{len(crawled.lines(host)) + len(lines)}"
        record = last["record"]
        if target in ("/a", "/b"):
            row = json.loads((crawled.job / "pages.jsonl").read_bytes().splitlines()[record["line"] - 1])
            assert row["url"] == crawled.sites[host].url(target)
        else:
            assert record is None


def test_formats(crawled: Crawled, tmp_path: Path, capsys: Any) -> None:
    common = [text.split(' "-" ')[0] for text in [*crawled.lines(QUICK), line(crawled.end, "/private/")]]
    by_host = [f"{crawled.sites[QUICK].hosts[0]} {text}" for text in common]
    for number, lines in enumerate((common, by_host)):
        log = tmp_path / f"{number}.gz"
        log.write_bytes(gzip.compress("\n".join(lines).encode()))
        code, found = crawled.audit(capsys, log, QUICK if number == 0 else SLOW)
        assert (code, found["host"]) == (1, crawled.sites[QUICK].hosts[0])
        assert [each["rule"] for each in found["violations"]] == ["disallowed"]


def test_what_cannot_be_audited_is_said(crawled: Crawled, tmp_path: Path, capsys: Any) -> None:
    log = tmp_path / "access.log"
    log.write_text("\n".join(crawled.lines(QUICK)))
    assert main(["audit", str(crawled.job), str(log)]) == 2  # three hosts
    assert main(["audit", str(crawled.job), str(log), "--host", "other.test"]) == 2
    assert main(["audit", str(crawled.job), str(tmp_path / "none")]) == 2
    (tmp_path / "other.log").write_bytes(b"\x00\xff not a log\n" * 3)
    assert main(["audit", str(crawled.job), str(tmp_path / "other.log"), "--host", crawled.sites[0].hosts[0]]) == 2
    assert "--host" in capsys.readouterr().err
    others = tmp_path / "others.log"
    others.write_text(line(crawled.end, "/private/x", "other/1.0"))
    assert main(["audit", str(crawled.job), str(others)]) == 0
    whole = gzip.compress(log.read_bytes() * 9)
    for name, data in (("cut", whole[:-20]), ("damaged", whole[:40] + b"\xff" * 8 + whole[48:])):
        (tmp_path / f"{name}.gz").write_bytes(data)
        assert main(["audit", str(crawled.job), str(tmp_path / f"{name}.gz")]) == 2


def test_names_of_one_host_are_put_together(tmp_path: Path, capsys: Any) -> None:
    flags = ("--allow-private", "--max-time", "1", "--user-agent", AGENT)
    crawler("crawl", "https://localhost/", *flags, "--job", tmp_path / "job")
    names = ("localhost", "LocalHost", "localhost:443", "LOCALHOST:443")
    log = tmp_path / "access.log"
    log.write_text("\n".join([f"{name} {line(1e9 + 60 * number, f'/{number}')}" for number, name in enumerate(names)]))
    capsys.readouterr()
    assert main(["audit", str(tmp_path / "job"), str(log), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["hosts"]
    assert (found["host"], found["requests"], found["smallest_gap"]) == ("localhost:443", 4, 60.0)
