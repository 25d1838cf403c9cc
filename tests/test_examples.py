"""README, tutorial and how-tos, carried out as they stand: each ``sh`` block is run, each block with a title is a file.

``console`` blocks need a network, another machine or root: their command lines are parsed as the program would.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import csv
import functools
import itertools
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import threading
import tomllib
import zipfile
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest
from aiohttp import web

from benchmarks.kit.machine import why_not_native
from crawler.base.settings.load import settings_from
from crawler.cli import COMMANDS, command_parser
from crawler.cli.crawl import build_settings
from crawler.service.dashboard.token import checked_token
from crawler.service.watched_jobs import jobs_in
from tests.base.carrier.redis_server import redis_server
from tests.documents import ROOT, page
from tests.hostile.server import NOT_FOUND, Answer, Server, Talk
from tests.hostile.server import page as answered
from tests.outputs import files_of
from tests.program import PATIENCE, crawler, stand_in
from tests.site import Site, linked, tree
from tests.web.extract.test_text_pool import PAGE

# Whole pages of commands are carried out, with the pauses that a polite crawl makes.
pytestmark = pytest.mark.timeout(300)

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ON_LOOPBACK = "--contact you@example.org --allow-private --delay 0"


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8") if name == "README.md" else page(name)


def blocks(name: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(text_of(name))]


def programs(folder: Path, crawler_is: str) -> Path:
    """A folder for PATH, whose ``crawler``, ``python3`` and ``scrapy`` are those under test."""
    folder.mkdir(parents=True)
    python = f'"{sys.executable}"'
    for name, words in {"crawler": crawler_is, "python3": python, "scrapy": f"{python} -m scrapy"}.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        path.chmod(0o755)
    return folder


def carry_out(name: str, folder: Path, changes: Mapping[str, str]) -> list[str]:
    """Do what the page says, in ``folder``, as a reader does with one shell: what a block exports, later ones have.
    Returns what each ``sh`` block printed. Each of ``changes`` is made to its commands, and must have something to
    change."""
    found = blocks(name)
    for text in changes:
        assert any(text in block.text for block in found if block.language == "sh"), f"{name} does not say {text!r}"
    crawler_is, descriptors = stand_in()
    path = f"{programs(folder.parent / 'programs' / name, crawler_is)}:{os.environ['PATH']}"
    printed = []
    exports: list[str] = []
    for block in found:
        if block.title and not (folder / block.title).exists():
            (folder / block.title).write_text(block.text)
        if block.language != "sh":
            continue
        commands = block.text
        for text, instead in changes.items():
            commands = commands.replace(text, instead)
        commands = "".join(exports) + commands
        exports = [line for line in commands.splitlines(keepends=True) if line.startswith("export ")]
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=descriptors,
        )
        assert ran.returncode == 0, f"{name}: {commands}{ran.stdout}{ran.stderr}"
        printed.append(ran.stdout)
    return printed


def python_files(name: str, folder: Path) -> dict[str, str]:
    """What each Python file of the page prints when it is run in ``folder``."""
    return {
        block.title: subprocess.run(
            [sys.executable, "-c", block.text], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        for block in blocks(name)
        if block.language == "python"
    }


def records(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]


def made(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def examples() -> list[str]:
    """The pages whose examples are all carried out, or at least read."""
    found = [path.name for folder in ("tutorial", "how-to") for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
    return ["README.md", *found, *(f"coming-from/{each.name}" for each in (ROOT / "docs" / "coming-from").glob("*.md"))]


@functools.cache
def named_here() -> Mapping[str, set[str]]:
    """Each text in this file, with the functions that are called with it first."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.setdefault(node.value, set())
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            found.setdefault(str(node.args[0].value), set()).add(ast.unparse(node.func))
    return found


def typed(block: Block) -> list[str]:
    """The command lines of a ``console`` block: those behind a prompt."""
    lines = block.text.replace("\\\n", " ").splitlines()
    found = [line[2:] for line in lines if line.startswith(("$ ", "# "))]
    assert found, f"no prompt: {block.text}"
    return found


def command_lines(text: str) -> Iterator[list[str]]:
    """What follows the name of the program in a line for a shell, once for each command in it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for splits, part in itertools.groupby(lexer, lambda word: set(word) <= set("|&;<>()")):
        words = ["", *part]
        named = [at for at, word in enumerate(words) if word == "crawler" and not words[at - 1].startswith("-")]
        if not splits and named and words[named[-1] + 1 :]:
            yield words[named[-1] + 1 :]


def parse(words: list[str]) -> None:
    """Read a command line as the program does, down to the settings of a crawl."""
    if words[0] in {"help", "--help", "--version"}:
        return
    if words[0] in COMMANDS and all(word.startswith("--") for word in words[1:]):  # named, as flags of a command are
        assert set(words[1:]) <= set(command_parser(words[0]).commands[words[0]].format_help().split())
        return
    words = words if words[0] in COMMANDS else ["crawl", *words]
    arguments = command_parser(words[0], by_engine="--engine" in words).parse_args(words)
    if words[0] == "crawl":
        build_settings(arguments)


def register(folder: Path) -> None:
    """Have Python find the entry points of the project in a folder, as pip does."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["crawler.hooks"].items()]
    (info / "entry_points.txt").write_text("[crawler.hooks]\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", examples())
def test_every_example_is_run_or_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None can go out of date unseen: an example of a kind that this test does not know fails it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("CRAWL_WEBHOOK", "https://hooks.example.org/")
    monkeypatch.setattr("os.geteuid", lambda: 1000)  # browsers are refused to root
    text, found, done = text_of(name), blocks(name), named_here().get(name, set())
    assert len(found) == len(re.findall(r"^ *```\S", text, re.MULTILINE)), "a block that is not seen"
    for block in found:
        if block.title:
            Path(block.title).write_text(block.text)
    if Path("pyproject.toml").is_file():
        register(tmp_path)
    lines = re.findall(r"`(crawler\s[^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    for block in found:
        match block.language:
            case "sh":
                assert "carry_out" in done, block.text
            case "console":
                lines += typed(block)
            case "toml" if block.title != "pyproject.toml":
                settings_from(tomllib.loads(block.text))
            case "python":
                compile(block.text, block.title, "exec")
                others = " ".join(each.text for each in found if each is not block)
                assert "python_files" in done or block.title in named_here() or Path(block.title).stem in others
            case "json":
                json.loads(block.text)
            case "sql" | "markdown":
                assert "blocks" in done, block.text
            case "yaml" | "ini" | "text" | "toml" if block.title:
                pass  # the commands of the page read it
            case language:
                assert language == "text", f"{language}: {block.text}"
    for words in itertools.chain.from_iterable(map(command_lines, lines)):
        parse(words)


def test_the_tutorial(tmp_path: Path) -> None:
    here = made(tmp_path)
    printed = carry_out("first-crawl.md", here, {"crawler demo": "crawler demo --delay 0.01"})
    found = records(here / "first")
    assert len({record["url"] for record in found}) == len(found) > 250, "resumed, and nothing was fetched twice"
    statuses = Counter(record["status"] for record in found)
    assert statuses[404] >= 8
    assert statuses[410] == 6
    (answer,) = (text for text in printed if "missing" in text)
    assert len(re.findall(r"^ +(?:404|410)  http://\S+ +\d+  http://", answer, re.MULTILINE)) == 10
    for status in (200, 404, 410):
        assert re.search(rf"^fetched +{status} +{statuses[status]}$", answer, re.MULTILINE)
    reported = next(text for text in printed if text.startswith("first-report.html"))
    pages = [record["status"] for record in found if not record.get("probe")]
    assert reported.startswith(f"first-report.html: {len(pages)} URLs, {pages.count(404) + pages.count(410)} broken; ")
    shown = re.search(r"```json\n(.*?)```", page("first-crawl.md"), re.DOTALL)
    assert shown is not None
    lost = next(record for record in found if record["status"] == 404)
    assert list(json.loads(shown[1])) == [name for name in lost if name != "kept"]


def test_crawling_50_sites(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site(tree(3), ports=51) as site:
        seeds = [site.url("/", number) for number in range(50)]
        (here / "seeds.txt").write_text("".join(f"{seed}\n" for seed in seeds))
        changes = {"--contact you@example.org": ON_LOOPBACK, "https://docs.example.com/": site.url("/", 50)}
        *_, table = carry_out("crawl-50-sites.md", here, changes)
        assert Counter(record["url"].split("/")[2] for record in records(here / "sites")) == dict.fromkeys(
            site.hosts[:50], 3
        )
        assert len(re.findall(r"^127\.0\.0\.1:\d+ +fetched +3$", table, re.MULTILINE)) == 50
        words = ON_LOOPBACK.split()
        assert crawler("/dev/null", "--job", here / "sites", "--config", here / "sites.toml", *words).code == 0
        assert len(records(here / "sites")) == 51 * 3, "the site that was added is crawled by the next run"


def test_using_all_cores(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site(tree(3)) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        changes = {"--contact you@example.org": ON_LOOPBACK, "--partitions 4": "--partitions 2"}
        carry_out("use-all-cores.md", here, changes)
        lines = (here / "all-pages.jsonl").read_text().splitlines()
        assert len({json.loads(line)["url"] for line in lines}) == len(lines) == 3


def test_sharing_a_seen_set(tmp_path: Path) -> None:
    here = made(tmp_path)
    with redis_server(tmp_path / "redis") as server:
        printed = carry_out("share-a-seen-set.md", here, {"127.0.0.1:6379": f"127.0.0.1:{server.port}"})
    # Each line once, but for those that the set took for seen ones.
    ((times, lines),) = [map(int, row.split()[::-1]) for row in printed[0].splitlines()]
    assert times == 1
    assert 99_950 <= lines <= 100_000
    assert "keys: raw lines" in printed[1]
    assert f"{lines:,} keys" in printed[1]
    assert [row.split()[0] for row in printed[2].splitlines()] == ["5000", "1000", "1000", "7000"]


def test_a_filter_in_front_of_a_database(tmp_path: Path) -> None:
    here = made(tmp_path)
    with redis_server(tmp_path / "redis") as server:
        changes = {"-p 6379": f"-p {server.port}", "attack.py 6379": f"attack.py {server.port}"}
        printed = carry_out("filter-before-a-database.md", here, changes)
        assert "errors: 0" in printed[0]
        words = printed[1].split()
        assert words[0] == "20000"
        # Its fpp is 0.001: 20 are expected, and 38 or more once in 6,000 filters. The hash has no secret: always the
        # same number.
        assert int(words[3]) < 38
        # No key that exists is denied.
        look_all = (
            "import sqlite3, redis, lookup;"
            f"a = lookup.Articles(redis.Redis(port={server.port}), sqlite3.connect('articles.db'));"
            "keys = range(0, 20000, 10);"
            "print(a.titles([f'article:{n}' for n in keys]) == [f'Article {n}' for n in keys])"
        )
        looked = subprocess.run([sys.executable, "-c", look_all], cwd=here, capture_output=True, text=True, check=True)
        assert looked.stdout == "True\n"


def test_finding_broken_links(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site({"/": linked(["/"])}) as other:
        pages = {"/": linked(["/a", "/gone", other.url("/"), other.url("/moved-away")]), "/a": linked(["/gone"])}
        with Site(pages) as site:
            changes = {"--contact you@example.org": ON_LOOPBACK, "https://www.example.org/": site.url("/")}
            (found,) = carry_out("find-broken-links.md", here, changes)
        assert found.splitlines()[-1].startswith("5 links checked on 2 pages: 2 broken, 0 ")
        with open(here / "broken.csv", newline="") as stream:
            assert {(row["url"], row["status"], row["page"]) for row in csv.DictReader(stream)} == {
                (site.url("/gone"), "404", site.url("/")),
                (site.url("/gone"), "404", site.url("/a")),
                (other.url("/moved-away"), "404", site.url("/")),
            }


def test_trying_failed_urls_again(tmp_path: Path) -> None:
    here, mended = made(tmp_path), []

    async def broken_at_first(request: web.Request) -> web.StreamResponse:
        if not mended and request.transport is not None:
            request.transport.abort()
        return web.Response(text="<p>here", content_type="text/html")

    with Site({"/": linked(["/a", "/b"]), "/a": linked([]), "/b": broken_at_first}) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        (here / "once.toml").write_text("[retry]\ntries = 1\n")
        words = ("--config", here / "once.toml", *ON_LOOPBACK.split())
        assert crawler(here / "seeds.txt", "--job", here / "check", *words).code == 0
        mended.append(True)
        listed, retried = carry_out("try-again.md", here, {"--contact you@example.org": ON_LOOPBACK})
        assert [json.loads(line)["url"] for line in listed.splitlines()] == [site.url("/b")]
        assert retried.splitlines()[0] == "1 URL requeued, 0 already pending"
    assert [(record["url"], record["outcome"]) for record in records(here / "check") if record.get("visit") == 2] == [
        (site.url("/b"), "fetched")
    ]


def test_crawling_private_hosts(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site(tree(10)) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        *_, counted = carry_out("private-hosts.md", here, {"--contact you@example.org": "--delay 0"})
        assert counted.split() == ["1"]
        assert len(site.pages_asked()) == 10
    assert [record["outcome"] for record in records(here / "wiki")] == ["excluded"] + ["fetched"] * 10


def test_proxies_and_logins(tmp_path: Path) -> None:
    here = made(tmp_path)
    origin = "http://docs.example.org"
    pages = {f"{origin}/": answered(linked(["/a"])), f"{origin}/a": answered("<p>here")}
    heads: list[bytes] = []

    def say(path: str) -> Answer | None:
        async def answer(talk: Talk) -> None:
            heads.append(talk.head)
            await talk.send(pages.get(path, NOT_FOUND))

        return answer

    with Server({"docs.example.org": say}) as proxy:
        proxy.listen("127.0.0.1")
        (toml,) = [block for block in blocks("proxies-and-logins.md") if block.title == "crawl.toml"]
        own = f"http://127.0.0.1:{proxy.port}"
        (here / "crawl.toml").write_text(toml.text.replace("http://proxy.example.org:3128", own))
        (here / "seeds.txt").write_text(f"{origin}/\n")
        carry_out("proxies-and-logins.md", here, {"--contact you@example.org": "--delay 0"})
    assert {record["outcome"] for record in records(here / "docs")} == {"fetched"}
    assert len(heads) == 3
    for head in heads:
        assert b"\r\nProxy-Authorization: Basic " + b64encode(b"robot:let-me-out") + b"\r\n" in head
        assert b"\r\nAuthorization: Basic " + b64encode(b"reader:let-me-in") + b"\r\n" in head
        assert b"\r\nX-Api-Key: k3y\r\n" in head
    for path in (here / "docs").rglob("*"):
        if path.is_file():
            for secret in (b"let-me", b"k3y", b64encode(b"reader:let-me-in")):
                assert secret not in path.read_bytes(), f"{path} contains a secret"


def test_identifying_your_crawler(tmp_path: Path) -> None:
    here, signed = made(tmp_path), list[bool]()

    async def guarded(asked: web.Request) -> web.Response:
        signed.append("Signature" in asked.headers)
        headers = {"Accept-Signature": 'sig1=("@authority");tag="web-bot-auth"'}
        return web.Response(status=200 if signed[-1] else 401, headers=headers, content_type="text/html")

    with Site({"/": guarded}) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        carry_out(
            "identify-your-crawler.md", here, {"--config crawl.toml": "--config crawl.toml --allow-private --delay 0"}
        )
    assert signed == [False, True]
    assert [record["status"] for record in records(here / "signed")] == [200]
    keys = json.loads((here / "identity" / "identity.jwk").read_text())["keys"]
    assert len(keys) == 2, "one was added, which signs from tomorrow"


def test_respecting_opt_outs(tmp_path: Path) -> None:
    here = made(tmp_path)

    async def refusing(_: web.Request) -> web.Response:
        return web.Response(text="<p>not for models", content_type="text/html", headers={"X-Robots-Tag": "noai"})

    with Site({"/": linked(["/refuses", "/free"]), "/refuses": refusing, "/free": linked([])}) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        carry_out("respect-opt-outs.md", here, {"--contact you@example.org": ON_LOOPBACK})
        kept = {record["url"]: record["outcome"] for record in records(here / "corpus")}
        assert kept == {site.url("/"): "fetched", site.url("/free"): "fetched", site.url("/refuses"): "excluded"}


def test_moving_a_job(tmp_path: Path) -> None:
    here = made(tmp_path)
    crawls = tmp_path / "crawls"
    crawls.mkdir()
    with Site(tree(30)) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        words = (*ON_LOOPBACK.split(), "--max-pages", "10")
        assert crawler(here / "seeds.txt", "--job", here / "news", *words).code == 0
        carry_out("move-a-job.md", here, {"/srv/crawls": str(crawls), "--contact you@example.org": ON_LOOPBACK})
        assert len(set(site.pages_asked())) == len(site.pages_asked()) == 30
    assert len(records(crawls / "news")) == 30


def test_backing_up_a_job(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site(tree(30)) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        words = (*ON_LOOPBACK.split(), "--max-pages", "10")
        assert crawler(here / "seeds.txt", "--job", here / "news", *words).code == 0
        changes = {"/mnt/backups": str(tmp_path / "backups"), "--contact you@example.org": ON_LOOPBACK}
        carry_out("back-up-a-job.md", here, changes)
        assert len(set(site.pages_asked())) == len(site.pages_asked()) == 30
    assert len(records(here / "news-restored")) == 30
    assert len(records(here / "news")) == 10


def test_the_readme(tmp_path: Path) -> None:
    here = made(tmp_path)
    lines = [line for block in blocks("README.md") if block.language == "sh" for line in block.text.splitlines()]
    install, test = lines[0], lines[-1]
    assert "pip install" in install, "tests/test_package.py installs it"
    assert "pytest" in test, "that is this test"
    (here / "words.py").write_text(re.search(r"`(def count.*?)`", text_of("README.md"))[1] + "\n")  # type: ignore[index]
    words = 'A filter never forgets a key. It may take a new one for a <a href="errors">known one</a>.'
    document = f"<html lang=en><title>Bloom filters</title><main><h1>Bloom filters</h1><p>{words}</main>"
    front = '<title>Start</title><a href="/docs">docs</a><a href="/gone">the old page</a>'
    with Site({"/": front, "/docs": document, "/errors": "<p>one two three"}) as site:
        changes = {install: ":", test: ":", "demo ": "demo --once --max-pages 20 --delay 0.01 "}
        changes |= {"--csv broken.csv": "--csv broken.csv || [ $? -eq 1 ]"}
        printed = carry_out("README.md", here, {**changes, "https://example.org/": f"{site.url('/')} {ON_LOOPBACK}"})
        kept = (here / "crawl-job" / "markdown" / site.hosts[0].replace(":", "+http+") / "docs.md").read_text("utf-8")
        said = "".join([kept, *printed]).replace(site.url("/"), "https://example.org/")
        data = {record["url"]: record.get("data") for record in records(here / "mine")}
        assert data[site.url("/errors")] == {"words": 3}
    changing = re.compile("^(fetched_at|extractor): .*", re.MULTILINE)
    for block in blocks("README.md"):
        if block.language in {"markdown", "text"}:
            assert changing.sub("", block.text) in changing.sub("", said)
    assert len(text_of("README.md").splitlines()) <= 80
    assert zipfile.is_zipfile(here / "kept" / "archive.wacz")


def test_coming_from_other_tools(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site({"/": linked(["/a"]), "/a": PAGE}) as site:
        changes = {"--on-page": f"{ON_LOOPBACK} --on-page", "https://shop.example/": site.url("/")}
        carry_out("coming-from/scrapy.md", here, changes)
        assert {"title": "Geese", "links": 2} in [record.get("data") for record in records(here / "products")]
        changes = {"--output": f"{ON_LOOPBACK} --output", "https://example.org/": site.url("/")}
        (printed,) = carry_out("coming-from/crawl4ai.md", here, changes)
        assert re.search(rf"^{site.url('/a')} \d+$", printed, re.MULTILINE)


def test_reading_results(tmp_path: Path) -> None:
    here = made(tmp_path)
    pages = {
        "/": linked(["/a", "/b", "/c", "/private"]),
        "/a": "<p>the same words</p>",
        "/b": "<p>the same words</p>",
        "/c": linked([]),
    }
    with Site(pages, robots="User-agent: *\nDisallow: /private\n") as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        assert crawler(here / "seeds.txt", "--job", here / "news", *ON_LOOPBACK.split()).code == 0
        (host,) = site.hosts
        (tailed,) = carry_out("read-results.md", here, {})
    assert tailed == ""
    found = records(here / "news")
    assert (here / "final.jsonl").read_bytes() == (here / "news" / "pages.jsonl").read_bytes()
    printed = python_files("read-results.md", here)
    total, links = sum(record["bytes"] or 0 for record in found), sum(record["links"] for record in found)
    assert re.search(rf"^{host} +4 +{total} +{links}$", printed["with_pandas.py"], re.MULTILINE)
    assert re.search(r"^fetched +4\nexcluded +1$", printed["with_pandas.py"], re.MULTILINE)
    assert "disallowed by robots.txt" in printed["with_duckdb.py"]
    assert re.search(rf"{re.escape(site.url('/a'))} +│ +1 ", printed["with_duckdb.py"])
    assert (here / "pages.parquet").read_bytes()[:4] == b"PAR1"


def test_asking_questions(tmp_path: Path) -> None:
    here = made(tmp_path)
    pages = {"/": linked(["/a", "/b", "/gone"]), "/a": "<p>the same words</p>", "/b": "<p>the same words</p>"}
    with Site(pages) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        words = ("--output", "links", *ON_LOOPBACK.split())
        assert crawler(here / "seeds.txt", "--job", here / "news", *words).code == 0
        (host,) = site.hosts
        tables, broken, via, hosts, largest, copies, changed, *_, exported = carry_out("ask-questions.md", here, {})
    found = records(here / "news")
    assert re.findall(r"^(\w+): ", tables, re.MULTILINE) == [
        *("records", "pages", "links", "text", "structured", "hosts")
    ]
    home, gone = site.url("/"), site.url("/gone")
    assert [rows(each) for each in (broken, via)] == [[[home, "x", gone, "404"]], [[home, gone, "404"]]]
    assert rows(hosts) == [[host, "4", "3", "1", "idle", "0"]]
    assert rows(largest)[0] == [str(max(record["bytes"] or 0 for record in found)), home]
    assert [row[:3] for row in rows(copies)] == [[site.url("/a"), "1", "21"]]
    assert rows(changed) == []
    titles = list(csv.reader((here / "titles.csv").read_text().splitlines()))
    assert titles[:2] == [["url", "title", "status"], [home, "page", "200"]]
    assert len(list(csv.DictReader((here / "news.csv").read_text().splitlines()))) == len(found) == 4
    assert re.fullmatch(r"news-parquet: 4 records, 3 links, 1 host; [\d,]+ bytes\n", exported)


def rows(table: str) -> list[list[str]]:
    """The cells of a table that `crawler sql` printed."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()[2:]]


def test_getting_the_text(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site({"/": PAGE, "/shop": "<title>Shop</title><p>Feathers for sale.", "/copy": PAGE}) as site:
        seeds = f"{site.url('/')}\n{site.url('/copy')}"
        about = {"https://example.com/about --extractor trafilatura": site.url("/shop")}
        changes = about | {"https://example.com/": seeds, "--contact you@example.org": f"{ON_LOOPBACK} --quiet"}
        assert carry_out("get-the-text.md", here, changes)[:2] == ["", ""]
        files = sorted(path.name for path in (here / "for-a-model" / "markdown").rglob("*.md"))
        assert files == ["copy.md", "index.md", "shop.md"]
        home, shop = site.url("/"), site.url("/shop")
    printed = python_files("get-the-text.md", here)
    found = dict(line.split(" ", 1) for line in printed["documents.py"].splitlines())
    assert len(found) == 2, "the copy has the text of the first page"
    assert found[shop] == "Shop 3 words"
    rows = dict(duckdb.sql(f"SELECT url, text FROM '{here}/site/text.parquet'").fetchall())
    assert set(rows) == {home, shop, site.url("/copy")}
    assert "The second paragraph" in rows[home]
    assert "Our shop" not in rows[home], "it is in the navigation"
    assert crawler("verify", here / "site-job").code == 0


def test_keeping_a_copy(tmp_path: Path) -> None:
    here = made(tmp_path)
    pages = {"/": linked(["/a", "/b", "/gone"]), "/a": "<p>one</p>", "/b": "<p>two</p>"}
    with Site(pages) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        assert crawler(here / "seeds.txt", "--job", here / "news", *ON_LOOPBACK.split()).code == 0
        wanted = sorted((site.url(path), len(text)) for path, text in pages.items())
    carry_out("keep-a-copy.md", here, {})
    with contextlib.closing(sqlite3.connect(here / "copy.sqlite")) as copy:
        assert copy.execute("SELECT url, bytes FROM pages ORDER BY url").fetchall() == wanted
        (place,) = copy.execute("SELECT cursor FROM place").fetchall()
    with duckdb.connect(str(here / "copy.duckdb")) as other:
        assert other.execute("SELECT url, bytes FROM pages ORDER BY url").fetchall() == wanted
        assert other.execute("SELECT cursor FROM place").fetchall() == [place]
    changes = [json.loads(line) for line in (here / "changes.jsonl").read_text().splitlines()]
    assert [each["change"] for each in changes if each["url"].endswith("/gone")] == ["delete"]
    assert changes[-1]["cursor"] == place[0]


def test_archiving_a_site(tmp_path: Path) -> None:
    here = made(tmp_path)

    async def css(_: web.Request) -> web.StreamResponse:
        return web.Response(text="body {}", content_type="text/css")

    style = Site({"/style.css": css})
    with (
        style,
        Site({"/": linked(["/a"]) + f'<link rel="stylesheet" href="{style.url("/style.css")}">', "/a": ""}) as site,
    ):
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        packed, _ = carry_out("archive-a-site.md", here, {"--contact you@example.org": ON_LOOPBACK})[1:]
        urls = {site.url("/"), site.url("/a"), style.url("/style.css")}
    assert packed.startswith("site.wacz: 2 pages, ")
    captures = {
        json.loads("{" + line.partition(" {")[2])["url"] for line in (here / "index.cdxj").read_text().splitlines()
    }
    assert captures >= urls
    for name in ("site-job/archive.wacz", "site.wacz"):
        with zipfile.ZipFile(here / name) as package:
            assert "archive/crawl-000001.warc.gz" in package.namelist()
    (index, archive) = re.findall(r"(?:index|archive_paths): (\S+)", (here / "config.yaml").read_text())
    assert (here / index).is_file()
    assert [path.name for path in (here / archive).iterdir()] == ["crawl-000001.warc.gz"]


def test_crawling_what_is_new(tmp_path: Path) -> None:
    here, weeks = made(tmp_path), list[int]()

    async def front(_: web.Request) -> web.StreamResponse:
        weeks.append(len(weeks))
        added = [f"/new/{week}" for week in weeks[1:]]
        return web.Response(text=linked(["/a", "/b", *added]), content_type="text/html")

    with Site({"/": front, "/a": "one", "/b": "two", "/new/1": "three", "/new/2": "four"}) as site:
        (here / "seeds.txt").write_text(site.url("/") + "\n")
        _, known, new, _ = carry_out("crawl-what-is-new.md", here, {"--contact you@example.org": ON_LOOPBACK})
        assert known == "2\n"
        assert [record["url"] for record in records(here / "next-monday")] == [site.url("/"), site.url("/new/1")]
        assert [json.loads(line)["url"] for line in new.splitlines()] == [site.url("/"), site.url("/new/1")]
        words = ("--known", here / "had.filter", *ON_LOOPBACK.split())
        assert crawler(here / "seeds.txt", "--job", here / "third", *words).code == 0
        assert [record["url"] for record in records(here / "third")] == [site.url("/"), site.url("/new/2")]


def test_running_your_own_code(tmp_path: Path) -> None:
    here = made(tmp_path)
    stated = '<script type="application/ld+json">{{"@type": "Product", "offers": {{"price": "{}.50"}}}}</script>'
    texts = {f"/item/{number}": f'<p class="price">from €1,00{number}.50</p>' for number in range(6)}
    prices = {path: text + stated.format(1000 + number) for number, (path, text) in enumerate(texts.items())}
    with Site({"/": linked([*prices, "/gone"]), **prices}) as site:

        def run(title: str) -> str:
            (program,) = (block.text for block in blocks("your-own-code.md") if block.title == title)
            changed = program.replace("https://shop.example/", site.url("/")).replace(
                "delay=0.5", "delay=0.0, allow_private=True"
            )
            assert changed.count("allow_private") == 1
            (here / title).write_text(changed)
            ran = subprocess.run(
                [sys.executable, title], cwd=here, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
            assert (ran.returncode, ran.stderr) == (0, "")
            return ran.stdout

        (here / "seeds.txt").write_text(site.url("/"))
        shown, stopping, _ = carry_out("your-own-code.md", here, {"--delay 0.5": ON_LOOPBACK})
        rows = {row["url"]: row["data"] for row in map(json.loads, shown.splitlines())}
        assert rows == {site.url(path): {"price": number + 1000.5} for number, path in enumerate(prices)}
        assert stopping == ""
        assert {row["url"]: row["data"] for row in records(here / "offers") if "data" in row} == rows
        register(here)
        words = ["seeds.txt", "--job", "named", "--on-page", "shop-products", *ON_LOOPBACK.split()]
        assert crawler(*words, directory=here).code == 0
        assert {row["url"]: row["data"] for row in records(here / "named") if "data" in row} == rows
        assert run("prices.py") == ""
        found = dict.fromkeys(map(site.url, prices))
        with contextlib.closing(sqlite3.connect(here / "prices.db")) as table:
            rows = dict(table.execute("SELECT url, price FROM prices").fetchall())
        assert rows == {url: number + 1000.5 for number, url in enumerate(found)}
        assert {row["url"]: row["data"]["price"] for row in records(here / "shop") if "data" in row} == rows


def test_letting_an_agent_crawl_and_reading_the_result(tmp_path: Path) -> None:
    here = made(tmp_path)
    with Site(tree(4)) as site:
        changes = {"--contact you@example.org": ON_LOOPBACK, "https://docs.example.org/": site.url("/")}
        (printed,) = carry_out("let-an-agent-crawl.md", here, changes)
    assert ast.literal_eval(printed)["fetched"] == 4
    assert json.loads((here / "result.json").read_text())["exit"] == 0


def test_a_focused_crawl(tmp_path: Path) -> None:
    here = made(tmp_path)
    relevant = {f"/book/{number}": ("whale ", "orca ", "dolphin ")[number % 3] * 5 for number in range(4, 80, 10)}
    books = {f"/book/{number}": f"<p>{number}" for number in range(80)}
    books |= {path: books[path] + text for path, text in relevant.items()}
    texts = {4: "On whales", 5: "A calendar"}
    shelves = {
        f"/shelf/{shelf}": "".join(
            f'<a href="/book/{shelf}{each}">{texts.get(each, "x")}</a>'.replace("/0", "/") for each in range(10)
        )
        for shelf in range(8)
    }
    with Site({"/": linked(shelves), **shelves, **books}) as site:
        (here / "seeds.txt").write_text(site.url("/"))
        harvest, _ = carry_out("focused-crawl.md", here, {"--delay 0.5": f"{ON_LOOPBACK} --concurrency 1"})
        assert harvest == "harvest   8 of 89 pages relevant (9.0%)\n"
        focused = [each.path for each in site.asked if each.path != "/robots.txt"][:25]
        assert set(relevant) <= set(focused)
        edges = b"".join(files_of(here / "filtered", "links").values()).splitlines()
        assert Counter(json.loads(line).get("why") for line in edges)["filtered"] == 8
        program = next(block.text for block in blocks("focused-crawl.md") if block.title == "focused.py")
        changed = program.replace("https://library.example/", site.url("/")).replace("=0.5,", "=0, allow_private=True,")
        ran = subprocess.run(
            [sys.executable, "-c", changed], cwd=here, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        assert len(ran.stdout.splitlines()) == 8, ran.stdout
        site.asked.clear()
        words = ("--job", "broad", "--max-pages", "25", "--concurrency", "1", *ON_LOOPBACK.split())
        crawler("seeds.txt", *words, directory=here)
        broad = [each.path for each in site.asked if each.path != "/robots.txt"]
        assert (len(broad), len(set(broad) & set(relevant))) == (25, 2), "in the order of a crawl without scores"


def test_a_fetcher_of_ones_own(tmp_path: Path) -> None:
    here = made(tmp_path)
    (program,) = (block.text for block in blocks("your-own-fetcher.md") if block.title)
    killed = threading.Event()

    async def held(request: web.Request) -> web.Response:
        if not killed.is_set():
            killed.set()
            await asyncio.Event().wait()
        return web.Response(text="<p>at last", content_type="text/html")

    pages = {**tree(60), "/page/20": held}
    with Site(pages) as site:
        changed = program.replace("https://shop.example/", site.url("/")).replace('"delay": 0.5', '"delay": 0.0')
        assert changed != program
        (here / "fetch.py").write_text(changed)
        with subprocess.Popen([sys.executable, "fetch.py"], cwd=here, stderr=subprocess.DEVNULL) as first:
            assert killed.wait(PATIENCE)
            first.kill()
        assert len(records(here / "my-crawl")) < len(pages)
        ran = subprocess.run(
            [sys.executable, "fetch.py"], cwd=here, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        times = Counter(each.path for each in site.asked)
        assert times.keys() | {"/page/20"} == set(pages)
        assert set(times.values()) == {1}, "and the one that was under way"
        assert Counter(record["url"] for record in records(here / "my-crawl")) == {site.url(path): 1 for path in pages}


def test_a_spider_of_scrapy(tmp_path: Path) -> None:
    here = made(tmp_path)
    (program,) = (block.text for block in blocks("scrapy-on-this-frontier.md") if block.title)
    with Site({"/": linked(["/a", "/b"]), "/a": linked(["/b", "/"]), "/b": linked(["/a"])}) as site:
        assert program.count("http://127.0.0.1:8000/") == 1
        (here / "site_spider.py").write_text(program.replace("http://127.0.0.1:8000/", site.url("/")))
        ran, stats, whole = carry_out("scrapy-on-this-frontier.md", here, {})
        assert (ran, whole) == ("", "site-job: whole\n")
        assert stats.startswith("ended\n")
        assert {json.loads(line)["url"] for line in (here / "pages.jsonl").read_text().splitlines()} == {
            site.url(path) for path in ("/", "/a", "/b")
        }


def test_running_in_a_container(tmp_path: Path) -> None:
    """What needs no engine; ``tests/test_container.py`` has the rest."""
    here = made(tmp_path)
    listed, _ = carry_out("run-in-a-container.md", here, {})
    assert {"Containerfile", "compose.yaml", "prometheus.yml"} <= set(listed.split())
    token = (here / "crawler-files" / "container" / "dashboard-token").read_text().strip()
    assert checked_token(token, "the file") == token


def test_running_as_a_service(tmp_path: Path) -> None:
    here = made(tmp_path)
    carry_out("run-as-a-service.md", here, {})
    for name in ("systemd/crawler@.service", "default.toml"):
        assert (here / "crawler-files" / name).read_bytes() == (ROOT / "config" / name).read_bytes()


def test_keeping_workers_running(tmp_path: Path) -> None:
    """The unit is tried in ``tests/cli/test_supervised.py``, the containers in ``tests/test_container.py``."""
    here = made(tmp_path)
    listed, unit, workers = carry_out("keep-workers-running.md", here, {})
    assert {"crawler-worker@.service", "workers.yaml", "crawler.conf"} <= set(listed.split())
    assert unit == (ROOT / "config" / "systemd" / "crawler-worker@.service").read_text("utf-8")
    assert workers == (ROOT / "config" / "container" / "workers.yaml").read_text("utf-8")
    given = dict(line.split("=", 1) for line in (here / "worker.env").read_text().splitlines())
    assert set(re.findall(r"\$\{(\w+)\}", unit)) <= {*given, "DIRECTORY"}
    assert f"--store {given['STORE']} " in page("keep-workers-running.md")


def test_watching_several_jobs(tmp_path: Path) -> None:
    here = made(tmp_path)
    carry_out("several-jobs.md", here, {"crawler demo": "crawler demo --delay 0.01"})
    fetched = {job.name: sum(row["outcome"] == "fetched" for row in records(job)) for job in jobs_in([here / "jobs"])}
    assert fetched == {"docs": 30, "news": 40}
    settings_from(tomllib.loads((here / "new.toml").read_text()))


def test_getting_notices(tmp_path: Path) -> None:
    here = made(tmp_path)
    carry_out("get-notices.md", here, {})
    settings = settings_from(tomllib.loads((here / "crawl.toml").read_text()))
    assert settings.notify.url == "env:CRAWL_WEBHOOK"
    (told,) = (json.loads(block.text) for block in blocks("get-notices.md") if block.language == "json")
    assert told["text"].startswith(f"crawl {told['job']}: ended: 1,234 pages")


def test_profiling_a_crawl(tmp_path: Path) -> None:
    here = made(tmp_path)
    (here / "seeds.txt").write_text("http://127.0.0.1:1/\n")  # of an earlier profile, as this directory
    (here / "profiled").mkdir()
    (here / "profiled" / "other").touch()
    scripts = {"python3 benchmarks/": f"python3 {ROOT}/benchmarks/"}
    native, measured, profiled = carry_out("profile-a-crawl.md", here, scripts)
    assert native == ("no\n" if why_not_native() else "yes\n")
    stages = measured.partition("by stage")[2]
    table = page("profile-a-crawl.md").partition("| stage |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| (\w+) \|", table, re.MULTILINE)
    assert re.findall(r"^(\w+) ", stages, re.MULTILINE) == named
    assert ElementTree.parse(here / "crawl.svg").getroot().tag.endswith("svg")
    assert "Ordered by: internal time" in profiled
    assert (
        len({each["url"] for each in records(here / "profiled") if each["status"] == 200 and not each.get("probe")})
        >= 200
    )
